"""Training of a model with a loss function: the same steps as those of the loss as an expression."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

BACKENDS = [row.name for row in oc.backends() if row.usable]
XS = np.random.default_rng(0).normal(size=(22, 6)).astype("float32")
TS = (XS.sum(1) > 0).astype("int64")


@pytest.fixture(params=BACKENDS)
def ctx(request):
    return oc.Context(request.param)


def batches(**settings):
    return train.batches({"x": XS, "t": TS}, 8, shuffle=3, **settings)


def adam(loss):
    return train.adam(loss, 0.01)


def values(ctx, block):
    return {path: ctx[p] for path, p in block.params.items()}


def test_a_model_is_trained_as_its_loss(ctx):
    data, model = batches(), nn.mlp(widths=[8, 2], rate=0.3, label="model")
    logits = model(data["x"])
    losses = oc.cross_entropy(logits, data["t"])
    metrics = {"accuracy": train.accuracy(logits, data["t"]), "loss": train.average(losses)}
    loss = train.weighted_mean(losses, data.weight)
    expected = train.fit(ctx, loss, train.adam(loss, 0.01), data, epochs=3, metrics=metrics)

    same, second = nn.mlp(widths=[8, 2], rate=0.3, label="model"), oc.Context(ctx.backend.name)
    metrics = {"accuracy": train.accuracy, "loss": lambda logits, t: train.average(oc.cross_entropy(logits, t))}
    settings = {"ctx": second, "epochs": 3, "metrics": metrics}
    fitted = train.fit(same, loss=oc.cross_entropy, optimizer=adam, data=batches(), **settings)
    assert list(fitted.losses) == list(expected.losses) and list(fitted.watched) == list(expected.watched)
    assert fitted.ctx is second and fitted.output.shape == logits.shape and fitted.loss.dims == ()
    for path, value in values(ctx, model).items():
        np.testing.assert_array_equal(value, second[same.params[path]], err_msg=path)


def test_the_default_context_holds_the_trained_parameters():
    with oc.use_backend("numpy"):
        model = nn.linear(width=2)
        fitted = train.fit(model, oc.cross_entropy, adam, batches(), epochs=2)
        assert fitted.ctx is oc.default_context()
        logits = model(oc.tensor(XS, batch_axes=1)).numpy()
    weights = values(fitted.ctx, model)
    np.testing.assert_allclose(logits, XS @ weights["w"].T + weights["b"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("source", ["arrays", "pairs"])
def test_several_operands_and_losses_of_several_cells(source):
    def model(x, y):
        return oc.param("w", 0.5, output=[3]) @ x + y

    ys, ts = XS[:, :3] * 2, XS[:, 3:]
    if source == "arrays":
        data = train.batches({"x": XS, "y": ys, "t": ts}, 8)
    else:
        x, y, t = (oc.placeholder(name, b=[8], o=[size]) for name, size in (("x", 6), ("y", 3), ("t", 3)))
        inputs, weight = {x: 0, y: 1, t: 2}, oc.placeholder("weight", b=[8], o=[])
        data = train.batches(list(zip(XS, ys, ts, strict=True)), 8, inputs=inputs, weight=weight)
    squares = lambda result, t: (result - t) ** 2  # noqa: E731
    fitted = train.fit(model, squares, lambda loss: train.sgd(loss, 0.0), data, ctx=oc.Context("numpy"))
    rows = zip(*map(cut, (XS, ys, ts)), strict=True)
    want = [((0.5 * x.sum(1, keepdims=True) + y - t) ** 2).mean() for x, y, t in rows]
    np.testing.assert_allclose(fitted.losses, want, rtol=1e-5)  # the rows that pad the last batch do not count


def cut(array):
    return np.split(array, [8, 16])


def test_one_column_and_losses_that_are_means():
    data = train.batches({"x": XS}, 8, partial="drop")
    fitted = train.fit(
        nn.linear(width=6), lambda y: (y**2).mean(), adam, data, ctx=oc.Context("numpy"), epochs=30,
        callbacks=[train.EarlyStopping(patience=5)],
    )  # fmt: skip
    assert fitted.losses[-1] < 0.5 * fitted.losses[0]


def test_parameters_of_a_block_that_is_not_applied_yet_are_restored(tmp_path):
    def fit(model, epochs):
        stopping = train.EarlyStopping(patience=9, restore=model)
        settings = {"callbacks": [stopping], "checkpoint": tmp_path / "run", "epochs": epochs}
        return train.fit(model, oc.cross_entropy, adam, batches(), ctx=oc.Context("numpy"), **settings)

    fit(nn.linear(width=2, label="a"), 2)
    model = nn.linear(width=2, label="a")
    fitted = fit(model, 6)
    assert len(fitted.losses) == 12 and np.isfinite(values(fitted.ctx, model)["w"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, oc.cross_entropy, adam, batches()), r"or a model and a loss function, fit\(model"),
        ((nn.linear(width=2), 3, adam, batches()), "not .* and 3"),
        ((nn.linear(width=2), oc.cross_entropy, adam, [{}]), "the data of a model are `train.batches"),
        ((nn.linear(width=2), lambda y, t: 0.0, adam, batches()), "returns a tensor, not 0.0"),
        ((nn.linear(width=2), lambda y, t: (y**2).mean(), adam, batches()), "does not depend on the weights"),
    ],
)
def test_errors_of_models(arguments, message):
    with pytest.raises(oc.CodeError, match=message):
        train.fit(*arguments, ctx=oc.Context("numpy"))
    with pytest.raises(oc.CodeError, match="takes one context"):
        w = oc.param("w", 1.0, o=[])
        train.fit(oc.Context("numpy"), w * w, train.sgd, [{}], ctx=oc.Context("numpy"))

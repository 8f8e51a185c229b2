"""The training loop, on every usable backend."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BACKENDS = [row.name for row in oc.backends() if row.usable]
XS = np.random.default_rng(0).normal(size=(5, 4, 3)).astype("float32")
TS = (XS @ np.float32([[1], [-2], [0.5]])) + np.float32(0.25)


@pytest.fixture(params=BACKENDS)
def ctx(request):
    return oc.Context(request.param)


def linear_loss(x, t):
    """The mean squared error of a linear model with zero parameters."""
    w = oc.param("w", 0.0, output=[1])
    b = oc.param("b", 0.0)
    return ((w @ x + b - t) ** 2).mean().with_label("loss")


def by_symbol():
    n = oc.symbol("n", 0, len(XS))
    loss = linear_loss(oc.tensor(XS, batch_axes=2)[n], oc.tensor(TS, batch_axes=2)[n])
    return loss, n


def by_feeds():
    x = oc.placeholder("x", batch=[4], output=[3])
    t = oc.placeholder("t", batch=[4], output=[1])
    return linear_loss(x, t), [{x: a, t: b} for a, b in zip(XS, TS, strict=True)]


def reference(order, rate):
    """The losses computed by NumPy."""
    w, b, losses = np.zeros((3, 1)), np.zeros(1), []
    for k in order:
        error = XS[k] @ w + b - TS[k]
        losses.append(np.mean(error**2))
        w, b = w - rate * 2 * XS[k].T @ error / error.size, b - rate * 2 * error.sum() / error.size
    return losses


@pytest.mark.parametrize("make", [by_symbol, by_feeds])
def test_every_epoch_has_a_step_for_each_batch(ctx, make):
    loss, batches = make()
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.1), batches, epochs=3)
    np.testing.assert_allclose(fitted.losses, reference([*range(5)] * 3, 0.1), rtol=1e-4)
    assert fitted.step_seconds > 0
    assert fitted.compile_seconds > 0
    assert fitted.watched == []


def test_shuffled_epochs_permute_the_batches_by_the_seed(ctx):
    order = np.random.default_rng(7)
    orders = [k for _ in range(2) for k in order.permutation(5)]
    for make in (by_symbol, by_feeds):
        loss, batches = make()
        fitted = train.fit(ctx, loss, train.sgd(loss, 0.1), batches, epochs=2, shuffle=7)
        np.testing.assert_allclose(fitted.losses, reference(orders, 0.1), rtol=1e-4)


def test_initialized_parameters_are_preserved(ctx):
    loss, n = by_symbol()
    ctx.init(loss)
    ctx[loss.params["w"]] = [[1.0, -2.0, 0.5]]
    ctx[loss.params["b"]] = 0.25
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.1), n)
    assert max(fitted.losses) < 1e-10


def test_watch_is_called_after_each_epoch(ctx):
    loss, n = by_symbol()
    seen = []

    def watch():
        seen.append(float(ctx[loss]))
        return {"seen": seen[-1]}

    fitted = train.fit(ctx, loss, train.sgd(loss, 0.1), n, epochs=3, watch=watch)
    assert [metrics["seen"] for metrics in fitted.watched] == seen
    assert seen == [fitted.losses[k] for k in (4, 9, 14)]


def test_feeds_may_mix_symbols_and_arrays(ctx):
    n = oc.symbol("n", 0, 5)
    t = oc.placeholder("t", batch=[4], output=[1])
    loss = linear_loss(oc.tensor(XS, batch_axes=2)[n], t)
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.1), ({n: k, t: TS[k]} for k in range(5)))
    np.testing.assert_allclose(fitted.losses, reference(range(5), 0.1), rtol=1e-4)


def test_invalid_batches_are_rejected(ctx):
    loss, _ = by_feeds()
    with pytest.raises(oc.CodeError, match="no batches"):
        train.fit(ctx, loss, train.sgd(loss, 0.1), [])
    with pytest.raises(oc.CodeError, match=r"from placeholders to arrays, \{x: xs, t: ts\}, not 3"):
        train.fit(ctx, loss, train.sgd(loss, 0.1), [3])

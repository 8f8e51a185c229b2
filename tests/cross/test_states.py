"""States of blocks, and expressions that serve training and inference, against NumPy on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BACKENDS = [row.name for row in oc.backends() if row.usable and row.name != "example"]
XS = np.random.default_rng(0).normal(1.0, 2.0, (6, 3)).astype("f4")


@pytest.fixture(params=BACKENDS)
def ctx(request: pytest.FixtureRequest) -> oc.Context:
    return oc.Context(request.param)


@oc.op
def batch_norm(x: oc.Tensor, *, momentum: float = 0.1) -> oc.Tensor:
    mean, variance = oc.state("mean", 0.0), oc.state("variance", 1.0)
    gain = oc.param("gain", 1.0)
    if oc.is_training():
        m = x.mean("...|c => c")
        v = ((x - m) ** 2).mean("...|c => c")
        mean[...] = (1 - momentum) * mean + momentum * m
        variance[...] = (1 - momentum) * variance + momentum * v
    else:
        m, v = mean, variance
    return gain * (x - m) / oc.sqrt(v + 1e-5)


@oc.op
def scaled(x: oc.Tensor) -> oc.Tensor:
    factor, w = oc.state("factor", 2.0, o=[]), oc.param("w", 3.0, o=[])
    y = w * x * factor
    factor += 1.0
    return y


def test_running_statistics_are_those_of_torch(ctx: oc.Context) -> None:
    torch = pytest.importorskip("torch")
    norm = torch.nn.BatchNorm1d(3, momentum=0.1)
    x = oc.placeholder("x", b=[6], o=[3])
    net = batch_norm()
    y = net(x)
    loss = (y * oc.tensor(XS, batch_axes=1)).sum()
    ctx.init(loss)
    step, infer = ctx.compile(train.grad_update(loss), keep=[net.params["gain"].grad]), ctx.compile(y.forward)
    for n in range(3):
        ctx[x] = XS * (n + 1)
        step()
        norm.zero_grad()
        (norm(torch.tensor(XS * (n + 1))) * torch.tensor(XS)).sum().backward()
        np.testing.assert_allclose(ctx[net.params["gain"].grad], norm.weight.grad.numpy(), rtol=1e-4)
        infer()
        infer()
    np.testing.assert_allclose(ctx[net.states["mean"]], norm.running_mean.numpy(), rtol=1e-5)
    biased = norm.running_var.numpy()  # the variance of torch is that of a sample, 6 / 5 as large
    np.testing.assert_allclose((ctx[net.states["variance"]] - 0.9**3) * 1.2 + 0.9**3, biased, rtol=1e-5)
    want = (XS * 3 - ctx[net.states["mean"]]) / np.sqrt(ctx[net.states["variance"]] + 1e-5)
    np.testing.assert_allclose(ctx[y], want, rtol=1e-5)


def test_gradients_read_what_the_forward_code_has_read(ctx: oc.Context) -> None:
    x, net = oc.placeholder("x", o=[]), scaled()
    first, second = net(x), net(x)  # share the state: the second reads what the first has written
    loss = 10.0 * first + second
    ctx.init(loss)
    ctx[x] = 5.0
    w, factor = net.params["w"], net.states["factor"]
    step = ctx.compile(train.grad_update(loss), keep=[w.grad, loss])
    for n in (2.0, 4.0):
        step()
        assert ctx[w.grad] == 50.0 * n + 5.0 * (n + 1)
        assert ctx[loss] == 150.0 * n + 15.0 * (n + 1)
        assert ctx[factor] == n + 2
    assert oc.evaluate(loss, {x: 1.0}, ctx) == 11.0 * 3.0 * 6.0
    assert ctx[factor] == 6.0


def test_what_is_read_after_an_update_is_the_new_value(ctx: oc.Context) -> None:
    @oc.op
    def count(x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
        n = oc.state("n", 0, o=[], dtype=oc.int32)
        before = n * 1
        n += 1
        between = n * 1
        n[...] = n * 10
        return before, between, n

    results = count(oc.tensor(1.0), training=True)
    for want in [(0, 1, 10), (10, 11, 110)]:
        assert tuple(map(int, oc.evaluate(list(results), ctx=ctx))) == want
    assert int(oc.evaluate(results[0], ctx=ctx)) == 110  # all updates run with each result
    assert int(oc.evaluate(results[2], ctx=ctx)) == 11110


def test_a_cache_is_written_in_inference_slice_by_slice(ctx: oc.Context) -> None:
    @oc.op
    def attended(k: oc.Tensor, *, at: oc.Symbol) -> oc.Tensor:
        cache = oc.state("cache", 0.0, b=[4], o=[3], when="always")
        cache[at][...] = k
        return oc.einsum("t|c; |c => |t", cache, k)

    n, k = oc.symbol("n", 0, 4), oc.placeholder("k", o=[3])
    scores = attended(k, at=n)
    routine = ctx.compile(scores.forward)
    for i in range(3):
        ctx[k] = np.float32([1, 2, 3]) + i
        routine(n=i)
    past = np.float32([[1, 2, 3], [2, 3, 4], [3, 4, 5], [0, 0, 0]])
    np.testing.assert_array_equal(ctx[scores], past @ past[2])
    assert not any(node.label.endswith("read") for node in routine.outputs)


def test_dropout_follows_the_code_and_the_nearest_decision(ctx: oc.Context) -> None:
    @oc.op
    def net(x: oc.Tensor) -> oc.Tensor:
        return oc.dropout(oc.param("w", 1.0) * x, 0.5)

    @oc.op
    def outer(x: oc.Tensor, *, inner: bool | None = None) -> oc.Tensor:
        return net(x, training=inner)

    x = oc.tensor(np.ones(64, "f4"))

    def dropped(y: oc.Tensor, mode: bool | None = None) -> bool:
        if mode is None:
            return bool((oc.evaluate(y, ctx=ctx) == 0).any())
        with oc.training(mode):
            return bool((oc.evaluate(y, ctx=ctx) == 0).any())

    assert not dropped(net(x)) and dropped(net(x), True) and not dropped(net(x), False)
    assert dropped(net(x, training=True)) and dropped(net(x, training=True), False)
    assert not dropped(net(x, training=False), True)
    assert dropped(outer(x, training=True)) and not dropped(outer(x, inner=False, training=True))
    loss = net(x, label="model").sum()
    (w,) = loss.params.values()
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=w.grad)()
    assert set(np.unique(ctx[w.grad])) == {0.0, 2.0}


def test_loops_and_branches_compute_for_the_mode_of_the_code(ctx: oc.Context) -> None:
    x = oc.param("x", np.ones(64, "f4"))
    _, ys = oc.scan(lambda c, _: (c, oc.dropout(x + c, 0.5, key="a", counter=1)), 0.0, length=3)
    z = oc.cond(x.sum() > 0.0, lambda: oc.dropout(x, 0.5, key="b", counter=1), lambda: 0.0 * x)
    loss = ys.sum() + z.sum()
    assert float(oc.evaluate(loss, ctx=ctx)) == 4 * 64
    with oc.training():
        masks, mask = oc.evaluate([ys, z], ctx=ctx)
    assert set(np.unique(masks)) == set(np.unique(mask)) == {0.0, 2.0}
    ctx.compile(train.grad_update(loss), keep=x.grad)()
    np.testing.assert_array_equal(ctx[x.grad], masks.sum(0) + mask)


def test_tangents_are_those_of_the_mode_of_the_code(ctx: oc.Context) -> None:
    x = oc.tensor(np.ones(64, "f4"))
    y = oc.dropout(x, 0.5, key="t", counter=1) ** 2
    slope = oc.jvp(y, {x: 1.0})
    assert (oc.evaluate(slope, ctx=ctx) == 2.0).all()
    with oc.training():
        dropped, slopes = oc.evaluate([y, slope], ctx=ctx)
    np.testing.assert_array_equal(slopes, np.where(dropped == 0.0, 0.0, 8.0))


def test_members_may_differ_between_the_modes() -> None:
    @oc.op
    def net(x: oc.Tensor) -> oc.Tensor:
        if oc.is_training():
            return oc.param("head", 1.0, o=[2]) * x + oc.param("w", 2.0, o=[2])
        return oc.param("w", 2.0, o=[2]) * x

    model, x = net(), oc.tensor([1.0, 2.0])
    y = model(x)
    again = model(x)
    assert list(model.params) == ["head", "w"] and list(y.all_params) == ["model.head", "model.w"]
    assert y.all_params["w"] is again.all_params["w"] is model(x, training=False).all_params["w"]
    np.testing.assert_array_equal(oc.evaluate(again, ctx=oc.Context("numpy")), [2.0, 4.0])


def test_states_start_as_given_and_are_not_trained() -> None:
    @oc.op
    def net(x: oc.Tensor) -> oc.Tensor:
        table = oc.state([[1.0, 2.0], [3.0, 4.0]])
        noise = oc.state("noise", oc.normal(), o=[2])
        return (oc.param("w", 1.0) * x + table.sum() + noise).sum()

    model = net()
    loss = model(oc.tensor([1.0, 2.0]))
    ctx = oc.Context("numpy")
    ctx.init(loss)
    assert list(loss.params) == ["model.w"] and list(model.states) == ["table", "noise"]
    assert [t.path for t in loss.states.values()] == ["model.table", "model.noise"]
    assert not loss.inputs()[1:]  # the constant alone
    noise = ctx[model.states["noise"]]
    np.testing.assert_array_equal(ctx[model.states["table"]], [[1, 2], [3, 4]])
    second = oc.Context("numpy")
    assert noise.std() > 0 and np.array_equal(second[model.states["noise"]], noise)


def test_loops_and_branches_read_states_in_the_order_of_the_code(ctx: oc.Context) -> None:
    @oc.op
    def net(x: oc.Tensor) -> oc.Tensor:
        w, s = oc.param("w", 2.0, o=[]), oc.state("s", 1.0, o=[])
        total, _ = oc.scan(lambda c, x: (c + w * x * s, None), 0.0, x)
        chosen = oc.cond(total > 0.0, lambda: total * s, lambda: 0.0 * total)
        s += 1.0
        rest = oc.while_loop(lambda v: v < 10.0, lambda v: v + s, 0.0, bound=20)
        again, _ = oc.scan(lambda c, x: (oc.recompute(lambda c: c * s)(c) + w * x, None), 0.0, x)
        return chosen + 100.0 * rest + 1000.0 * again

    block = net()
    loss = block(oc.tensor(np.float32([1, 2, 3])))
    w, s = block.params["w"], block.states["s"]
    ctx.init(loss)
    step = ctx.compile(train.grad_update(loss), keep=[loss, w.grad])
    for n in (1.0, 2.0):
        step()
        later = n + 1.0
        again = later * later + 2.0 * later + 3.0
        assert ctx[loss] == 12.0 * n * n + 100.0 * later * -(-10 // later) + 2000.0 * again
        assert ctx[w.grad] == 6.0 * n * n + 1000.0 * again and ctx[s] == later


def refused(text: str) -> Any:
    return pytest.raises(oc.CodeError, match=text)


def test_errors_of_states_and_modes() -> None:
    @oc.op
    def looped(x: oc.Tensor) -> oc.Tensor:
        total = oc.state("total", 0.0, o=[])

        def step(c: oc.Tensor, _: object) -> Any:
            total[...] = c
            return c, c

        return oc.scan(step, x, length=2)[0]

    @oc.op
    def branched(x: oc.Tensor) -> oc.Tensor:
        return oc.cond(x > 0.0, lambda: scaled(x), lambda: x)

    @oc.op
    def nothing(x: oc.Tensor) -> str:
        n = oc.state("n", 0.0, o=[])
        n += 1.0
        return "text"

    @oc.op
    def bad(x: oc.Tensor, *, init: object, when: str = "training") -> oc.Tensor:
        return x + oc.state("s", init, when=when)

    x = oc.placeholder("x", o=[])
    for call, text in [
        (lambda: oc.state("s", 0.0), "`s` belongs to a block"),
        (lambda: looped(x), "cannot be updated in the body of a loop"),
        (lambda: branched(x), "`factor` cannot be updated in the body of a loop or of a branch: return the new value"),
        (lambda: oc.recompute(looped)(x), "`total` cannot be updated in the body of a loop"),
        (lambda: nothing(x), "returns no tensor"),
        (lambda: bad(x, init=x * 2.0), "is a number, an array or an initializer"),
        (lambda: bad(x, init=0.0, when="never"), '"training" or "always", not \'never\''),
        (lambda: oc.is_training(), "outside of blocks nothing decides"),
        (lambda: batch_norm(training=True), r"decides at an application: batch_norm\(...\)\(x, training=True\)"),
        (lambda: batch_norm(x, training=1), "True or False, not 1"),
    ]:
        with refused(text):
            call()
    net = scaled()
    net(x)
    with refused("assignments are recorded"):
        net.states["factor"] += 1.0

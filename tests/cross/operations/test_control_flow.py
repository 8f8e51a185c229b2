"""Scans, while loops and conditional expressions: values, gradients, shapes and mistakes."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

RNG = np.random.default_rng(0)


def draw(*dims):
    return RNG.normal(size=dims)


# --- cells, unrolled and scanned --------------------------------------------------------------------------------------


def rnn(h, x):
    h = oc.tanh(oc.param("u") @ h + oc.param("w") @ x + oc.param("b"))
    return h, h


def gru(h, x):
    z = oc.sigmoid(oc.param("wz") @ x + oc.param("uz") @ h)
    r = oc.sigmoid(oc.param("wr") @ x + oc.param("ur") @ h)
    n = oc.tanh(oc.param("wn") @ x + r * (oc.param("un") @ h))
    h = (1.0 - z) * n + z * h
    return h, h


def lstm(state, x):
    gates = oc.param("w") @ x + oc.param("u") @ state["h"] + oc.param("b", o=[4, 5])
    i, f, o, z = (oc.einsum(f"...|{n},h => ...|h", gates) for n in range(4))
    c = oc.sigmoid(f) * state["c"] + oc.sigmoid(i) * oc.tanh(z)
    h = oc.sigmoid(o) * oc.tanh(c)
    return {"h": h, "c": c}, h


def state_of(cell, value):
    return {"h": value, "c": 0.5 * value} if cell is lstm else value


def gradients(ctx, loss, params):
    ctx.init(loss, seed=3)
    ctx.run(train.grad_update(loss))
    return [np.array(ctx[p.grad]) for p in params]


@pytest.mark.sample(covering=("cell backend", "cell recompute reverse", "recompute backend", "reverse backend"))
@pytest.mark.parametrize("cell", [rnn, gru, lstm])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("recompute", [False, True, None])
def test_a_scan_equals_the_unrolled_loop(ctx, cell, reverse, recompute):
    steps, x = 6, draw(6, 3, 2)
    xs = oc.tensor(x, batch_axes=2, label="xs")
    step = oc.op(cell)(label="cell")
    h0 = oc.param("h0", draw(3, 5), b=[3], o=[5])
    last, ys = oc.scan(step, state_of(cell, h0), xs, reverse=reverse, recompute=recompute)
    weights = oc.tensor(draw(steps, 3, 5), batch_axes=2)
    loss = (weights * ys).sum() + (last["h"] if cell is lstm else last).sum()
    params = list(loss.params.values())
    got = gradients(ctx, loss, params)
    value, outputs = float(ctx[loss]), oc.evaluate(ys, ctx=ctx)

    state, results = state_of(cell, h0), []
    for n in reversed(range(steps)) if reverse else range(steps):
        state, y = step(state, xs[n])
        results.append(y)
    results = results[::-1] if reverse else results
    unrolled = (weights * oc.stack(results, axis="batch")).sum() + (state["h"] if cell is lstm else state).sum()
    assert list(unrolled.params) == list(loss.params)
    expected = gradients(ctx, unrolled, params)
    np.testing.assert_allclose(value, float(ctx[unrolled]), rtol=1e-6)
    np.testing.assert_allclose(outputs, oc.evaluate(oc.stack(results, axis="batch"), ctx=ctx), rtol=1e-6)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_equals_that_of_pytorch(ctx, layers):
    torch = pytest.importorskip("torch")
    steps, batch, width, hidden = 7, 4, 3, 5
    net = torch.nn.LSTM(width, hidden, layers).double()
    x = torch.randn(steps, batch, width, dtype=torch.float64)
    ys_torch, _ = net(x)
    (ys_torch**2).sum().backward()

    ys, params = oc.tensor(x.numpy(), batch_axes=2), {}
    for n in range(layers):
        names = [f"{name}_l{n}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        arrays = [getattr(net, name).detach().numpy() for name in names]
        w, u, b, d = (
            oc.param(name, a, o=[4 * hidden], i=list(a.shape[1:])) for name, a in zip(names, arrays, strict=True)
        )
        params |= dict(zip(names, (w, u, b, d), strict=True))

        def cell(state, x, w=w, u=u, b=b, d=d):
            h, c = state
            gates = oc.einsum("...|(g h) => ...|g,h", w @ x + b + u @ h + d, g=4)
            i, f, z, o = (oc.einsum(f"...|{n},h => ...|h", gates) for n in range(4))
            c = oc.sigmoid(f) * c + oc.sigmoid(i) * oc.tanh(z)
            h = oc.sigmoid(o) * oc.tanh(c)
            return (h, c), h

        _, ys = oc.scan(cell, (0.0, 0.0), ys)

    loss = (ys**2).sum()
    got = gradients(ctx, loss, params.values())
    np.testing.assert_allclose(oc.evaluate(ys, ctx=ctx), ys_torch.detach(), rtol=1e-9, atol=1e-12)
    for (name, _), g in zip(params.items(), got, strict=True):
        np.testing.assert_allclose(g, getattr(net, name).grad, rtol=1e-8, atol=1e-11)


# --- structures, lengths and rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_lengths(ctx, steps):
    xs = oc.placeholder("xs", batch=[steps], output=[3], dtype="float64")
    total, sums = oc.scan(lambda c, x: (c + x, c), oc.tensor(np.ones(3)), xs)
    x = draw(steps, 3)
    got = oc.evaluate([total, sums], {xs: x}, ctx=ctx)
    np.testing.assert_allclose(got[0], 1 + x.sum(0), rtol=1e-12)
    np.testing.assert_allclose(got[1], 1 + x.cumsum(0) - x, rtol=1e-12)


def test_steps_along_an_output_axis(ctx):
    x = draw(4, 3)
    total, sums = oc.scan(lambda c, x: (c + x, c + x), oc.tensor(np.zeros(3)), oc.tensor(x))
    assert sums.shape.output and not sums.shape.batch
    np.testing.assert_allclose(oc.evaluate(sums, ctx=ctx), x.cumsum(0), rtol=1e-12)
    np.testing.assert_allclose(oc.evaluate(total, ctx=ctx), x.sum(0), rtol=1e-12)


def test_several_sequences_carries_and_no_result(ctx):
    a, b = draw(4, 2), draw(4, 2)
    xs = {"a": oc.tensor(a, batch_axes=1), "b": [oc.tensor(b, batch_axes=1)]}

    def step(carry, x):
        total, count = carry
        return (total + x["a"] * x["b"][0], count + 1), None

    (total, count), nothing = oc.scan(step, (oc.tensor(np.zeros(2)), 0), xs)
    assert nothing is None
    np.testing.assert_allclose(oc.evaluate(total, ctx=ctx), (a * b).sum(0), rtol=1e-12)
    assert oc.evaluate(count, ctx=ctx) == 4


def test_carries_may_change_places(ctx):
    (a, b), _ = oc.scan(lambda c, _: ((c[1], c[0] + c[1]), None), (0, 1), length=10)
    assert (oc.evaluate(a, ctx=ctx), oc.evaluate(b, ctx=ctx)) == (55, 89)


def test_the_initial_carry_is_broadcast(ctx):
    xs = oc.tensor(draw(3, 2, 4), batch_axes=2)
    last, _ = oc.scan(lambda c, x: (0.5 * c + x, None), 1.0, xs)
    assert last.dims == (2, 4)


def test_only_the_used_results_are_computed(ctx):
    xs = oc.placeholder("xs", batch=[64], output=[8])
    last, ys = oc.scan(lambda c, x: (c + x, oc.exp(c)), 0.0, xs)
    assert "exp(" not in ctx.compile(last.forward).stages()["allocate_memory"]
    assert "exp(" in ctx.compile(ys.forward).stages()["allocate_memory"]


def test_code_does_not_grow_with_the_length():
    def lines(steps):
        xs = oc.placeholder("xs", batch=[steps, 2], output=[3])
        _, ys = oc.scan(oc.op(rnn)(label="cell"), oc.tensor(np.zeros((2, 5)), batch_axes=1), xs)
        return len(str(train.grad_update((ys * ys).sum())).splitlines())

    assert lines(4) == lines(400)


def test_expressions_without_the_carry_are_computed_before_the_loop(ctx):
    w = oc.param("w", draw(3))
    _, ys = oc.scan(lambda c, x: (c + x * oc.exp(w), c), oc.tensor(np.zeros(3)), oc.tensor(draw(5, 3), batch_axes=1))
    before, _, loop = str(ys.forward).partition("for t in")
    assert "exp(w" in before and "exp(" not in loop


def test_scans_in_scans(ctx):
    w = oc.param("w", 0.3 * draw(3, 3), i=[3], o=[3])

    def inner(h, _):
        h = oc.tanh(w @ h)
        return h, h

    def outer(h, x):
        h, hs = oc.scan(inner, h + x, length=4)
        return h, hs.sum()

    def loss_of(xs):
        last, sums = oc.scan(outer, oc.tensor(np.zeros(3)), xs)
        return (last * last).sum() + (sums * sums).sum()

    xs = draw(3, 3)
    loss = loss_of(oc.tensor(xs, batch_axes=1))
    (got,) = gradients(ctx, loss, [w])
    matrix, step = np.array(ctx[w], float), 1e-6

    def value(m):
        h, out = np.zeros(3), 0.0
        for x in xs:
            h, s = h + x, 0.0
            for _ in range(4):
                h = np.tanh(m @ h)
                s += h.sum()
            out += s * s
        return out + h @ h

    for i, j in np.ndindex(3, 3):
        e = np.zeros((3, 3))
        e[i, j] = step
        difference = (value(matrix + e) - value(matrix - e)) / (2 * step)
        np.testing.assert_allclose(got[i, j], difference, rtol=1e-5, atol=1e-7)


def test_every_gradient_is_that_of_differences():
    def run(h0, xs, w):
        last, ys = oc.scan(lambda h, x: ((h2 := oc.sin(w * h + x)), h2 * h), h0, xs)
        return oc.concat("a; b => a^b", last, ys.sum("t,c => c"))

    oc.testing.gradcheck(run, draw(3), draw(4, 3), draw(3))
    oc.testing.gradcheck(lambda x: oc.while_loop(lambda c: c < 5.0, lambda c: c * x, 1.0, bound=8), 1.7)
    oc.testing.gradcheck(lambda x, y: oc.cond(x < 0.0, lambda: oc.exp(y), lambda: y * x), -0.5, draw(3))
    oc.testing.gradcheck(lambda x, y: oc.cond(x < 0.0, lambda: oc.exp(y), lambda: y * x), 0.5, draw(3))


def test_steps_draw_different_numbers_and_gradients_the_same(ctx):
    x = oc.param("x", np.ones(64, "float32"), o=[64])
    _, ys = oc.scan(lambda c, _: (c, oc.dropout(x + c, 0.5, key="mask", counter=1)), 0.0, length=8)
    with oc.training():
        masks = oc.evaluate(ys, ctx=ctx) != 0
    assert len({tuple(mask) for mask in masks}) == 8 and 0.4 < masks.mean() < 0.6
    loss = ys.sum()
    (g,) = gradients(ctx, loss, [x])
    np.testing.assert_allclose(g, 2.0 * masks.sum(0))


# --- while and cond ---------------------------------------------------------------------------------------------------


def test_a_while_loop_ends_by_its_condition_or_bound(ctx):
    a = oc.placeholder("a", output=[])
    root = oc.while_loop(lambda x: oc.abs(x * x - a) > 1e-5 * a, lambda x: 0.5 * (x + a / x), 1.0, bound=30)
    for value in (2.0, 1e4):
        np.testing.assert_allclose(oc.evaluate(root, {a: np.float32(value)}, ctx=ctx), value**0.5, rtol=1e-4)
    count = oc.while_loop(lambda n: n >= 0, lambda n: n + 1, 0, bound=7)
    never = oc.while_loop(lambda n: n < 0, lambda n: n + 1, 0, bound=7)
    assert (oc.evaluate(count, ctx=ctx), oc.evaluate(never, ctx=ctx)) == (7, 0)


def test_a_condition_selects_the_code_that_is_executed(ctx):
    x, flag = oc.param("x", draw(3), o=[3]), oc.placeholder("flag", output=[])
    y = oc.cond(flag > 0.0, lambda: oc.exp(x), lambda: (x * x).sum() * x)
    step = ctx.compile(train.grad_update(y.sum()), keep=[x.grad, y])
    ctx.init(y)
    for value, wanted in ((1.0, np.exp), (-1.0, lambda v: 3 * 0 + 2 * v * v.sum() + (v * v).sum())):
        ctx[flag] = np.float32(value)
        step()
        v = np.array(ctx[x])
        np.testing.assert_allclose(ctx[x.grad], wanted(v), rtol=1e-6)


def test_branches_in_steps(ctx):
    x, v = oc.param("x", np.ones(3), o=[3]), draw(6)
    step = lambda c, u: (oc.cond(u > 0.0, lambda: c + u * x.sum(), lambda: 0.5 * c), None)  # noqa: E731
    last, _ = oc.scan(step, oc.tensor(np.array(1.0)), oc.tensor(v, batch_axes=1))
    (g,) = gradients(ctx, last, [x])
    c, d = 1.0, 0.0
    for u in v:
        c, d = (c + 3 * u, d + u) if u > 0 else (0.5 * c, 0.5 * d)
    np.testing.assert_allclose(float(ctx[last]), c, rtol=1e-6)
    np.testing.assert_allclose(g, d, rtol=1e-6)


def test_steps_along_an_output_axis_of_results_with_batches(ctx):
    x, w = draw(4), oc.param("w", draw(3, 2), b=[3], o=[2])
    _, ys = oc.scan(lambda c, u: (c + u * w, c + u * w), 0.0, oc.tensor(x))
    assert (ys.shape.batch[0].size, [axis.size for axis in ys.shape.output]) == (3, [4, 2])
    weights = draw(3, 4, 2)
    loss = (oc.tensor(weights, batch_axes=1) * ys).sum()
    (g,) = gradients(ctx, loss, [w])
    sums = x.cumsum()
    np.testing.assert_allclose(oc.evaluate(ys, ctx=ctx), sums[:, None] * np.array(ctx[w])[:, None], rtol=1e-6)
    np.testing.assert_allclose(g, (weights * sums[:, None]).sum(1), rtol=1e-6)


def test_random_numbers_in_a_branch_that_is_taken_sometimes(ctx):
    flag = oc.placeholder("flag", output=[])
    y = oc.cond(flag > 0.0, lambda: oc.uniform(key="noise", output=[4]), lambda: oc.tensor(np.zeros(4, "float32")))
    step, seen = ctx.compile(y.forward), []
    for value in (1.0, 0.0, 1.0, 1.0):
        ctx[flag] = np.float32(value)
        step()
        seen.append(np.array(ctx[y]))
    assert not seen[1].any() and len({tuple(v) for v in seen}) == 4


# --- mistakes ---------------------------------------------------------------------------------------------------------

XS = oc.placeholder("xs", batch=[5], output=[3])
FOUR = oc.tensor(np.zeros(4, "float32"), label="four")


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: oc.scan(lambda c, x: (c + x, None), FOUR, XS), oc.ShapeError, "is 4, but output axis 1 of `xs` is 3"),
        (lambda: oc.scan(lambda c, x: (c.sum(), None), FOUR, XS), oc.ShapeError, "`...` in a carry"),
        (lambda: oc.scan(lambda c, x: c, 0.0, XS), oc.CodeError, "returns a pair (carry, y)"),
        (lambda: oc.scan(lambda c, x: ((c, c), x), 0.0, XS), oc.CodeError, "both have the same structure"),
        (lambda: oc.scan(lambda c, x: (c + x.sum(), x), 0, XS), oc.DtypeError, "start from a float, such as 0.0"),
        (lambda: oc.scan(lambda c, x: (c, x), 0.0), oc.CodeError, "give length=..."),
        (lambda: oc.scan(lambda c: c, 0.0, XS), oc.CodeError, "is called with 2 arguments"),
        (lambda: oc.scan(3, 0.0, XS), oc.CodeError, "takes a function"),
        (lambda: oc.scan(lambda c, x: (c, x), 0.0, XS, length=7), oc.ShapeError, "has 5 steps"),
        (lambda: oc.scan(lambda c, x: (c, x), 0.0, oc.tensor(3.0)), oc.ShapeError, "has no axis of steps"),
        (lambda: oc.scan(lambda c, x: (c, x), None, XS), oc.CodeError, "`init` holds no tensor"),
        (lambda: oc.scan(lambda c, x: (c, x), 0.0, length=-1), oc.CodeError, "an integer from 0"),
        (lambda: oc.while_loop(lambda c: c < 3.0, lambda c: c, FOUR, bound=5), oc.ShapeError, "in a condition"),
        (lambda: oc.cond(XS > 0, lambda: 1.0, lambda: 2.0), oc.ShapeError, "in a condition"),
        (lambda: oc.cond(XS.sum() > 0, lambda: XS, lambda: FOUR).dims, oc.ShapeError, "in a cond"),
        (lambda: oc.cond(XS.sum() > 0, lambda: XS, lambda: None), oc.CodeError, "different structures"),
        (lambda: oc.cond(XS.sum() > 0, lambda: oc.tensor(np.arange(3)), lambda: FOUR), oc.DtypeError, "use .astype"),
    ],
)
def test_mistakes(build, error, text):
    with pytest.raises(error) as caught:
        build()
    assert text in str(caught.value)


def test_tensors_of_the_body_stay_inside(ctx):
    inside = []

    def step(c, x):
        inside.append(c + oc.tanh(x))
        return inside[0], None

    oc.scan(step, 0.0, XS)
    with pytest.raises(oc.CodeError, match="return it from the function of the loop"):
        ctx.compile(inside[0].forward)


def test_loops_are_built_outside_of_code():
    with pytest.raises(oc.CodeError, match="outside of oc.cd"), oc.cd("step"):
        oc.scan(lambda c, x: (c, x), 0.0, XS)


# --- types of carries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layer", [nn.rnn, nn.gru, nn.lstm])
def test_recurrent_layers_have_the_type_of_their_sequence(layer, dtype) -> None:
    x = oc.tensor(np.ones((2, 5, 3)), batch_axes=2, dtype=dtype)
    lengths = oc.tensor(oc.batch(5, 2))
    y, states = layer(x, lengths, width=4, layers=2, bidirectional=True, return_states=True, label="net")
    states = [part for state in states for part in (state if isinstance(state, tuple) else (state,))]
    assert {str(t.dtype) for t in (y, *states, *y.params.values())} == {dtype}
    assert y.numpy().dtype == dtype


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_in_float64_equal_those_of_pytorch(ctx, layer) -> None:
    torch = pytest.importorskip("torch")
    x, peer = draw(2, 6, 3), getattr(torch.nn, layer)(3, 4, batch_first=True).double()
    weights = draw(2, 6, 4)
    results, _ = peer(torch.tensor(x))
    (results * torch.tensor(weights)).sum().backward()

    y = getattr(nn, layer.lower())(oc.tensor(x, batch_axes=2), width=4, label="net")
    loss = (y * oc.tensor(weights, batch_axes=2)).sum()
    arrays = {name: p.detach().numpy() for name, p in peer.named_parameters()}
    values = {"w_x": arrays["weight_ih_l0"], "w_h": arrays["weight_hh_l0"]}
    biases = arrays["bias_ih_l0"], arrays["bias_hh_l0"]
    values |= dict(zip(("b_x", "b_h"), biases, strict=True)) if layer == "GRU" else {"b": sum(biases)}
    params = {path.split(".")[-1]: p for path, p in y.params.items()}
    ctx.init(loss)
    for name, p in params.items():
        ctx[p] = values[name]
    ctx.compile(train.grad_update(loss))()
    np.testing.assert_allclose(float(ctx[loss]), float((results * torch.tensor(weights)).sum().detach()), rtol=1e-13)
    for name, path in (("w_x", "weight_ih_l0"), ("w_h", "weight_hh_l0")):
        np.testing.assert_allclose(ctx[params[name].grad], getattr(peer, path).grad, rtol=1e-11, atol=1e-14)


def test_a_number_of_a_type_is_a_carry_of_this_type() -> None:
    xs = oc.tensor(np.arange(3.0), batch_axes=1)
    for start in (0.0, oc.tensor(0.0), oc.tensor(0.0, dtype="float64")):
        last, _ = oc.scan(lambda total, x: (total + x, total), start, xs)
        assert last.numpy().dtype == "float64"
        np.testing.assert_array_equal(last.numpy(), 3.0)
    fix = r"float32 before a step, and float64 after .*: start from a tensor of float64, such as oc.tensor\(0.0, dtype"
    with pytest.raises(oc.DtypeError, match=fix):
        oc.scan(lambda total, x: (total + x, total), oc.tensor(0.0, dtype="float32"), xs)

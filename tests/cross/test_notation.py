"""What the notation promises, on every backend: each test is one promise, judged by NumPy or by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


def data(*dims: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([5, *dims]).normal(size=dims).astype("float32")


def node(label: str, *dims: int, batch: tuple[int, ...] = ()) -> oc.Tensor:
    return oc.placeholder(label, b=list(batch), i=[], o=list(dims))


def holds(ctx: oc.Context, t: oc.Tensor, want: Any, **close: float) -> None:
    got = oc.evaluate(t, ctx=ctx)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, **{"rtol": 1e-5, "atol": 1e-6, **close})


# --- data and parameters ----------------------------------------------------------------------------------------------


def test_only_the_count_of_data_may_be_a_fact(ctx):
    x = data(6)
    holds(ctx, oc.tensor(x, shape="infer") + oc.tensor(np.zeros((2, 3), "float32")), x.reshape(2, 3))


def test_files_are_read_as_they_lie(ctx, tmp_path):
    x, path = data(4, 2), tmp_path / "x"
    x.tofile(path)
    mapped = np.memmap(path, "float32", "r", shape=(4, 2))
    holds(ctx, oc.tensor(mapped, batch_axes=1) * 2, x * 2)
    holds(ctx, oc.from_file(path, "float32") + oc.tensor(np.zeros((4, 2), "float32"), batch_axes=1), x)


def test_a_parameter_starts_as_told(ctx):
    drawn = oc.evaluate(oc.param("u", o=[1000]), ctx=ctx)
    assert -0.25 <= drawn.min() < -0.24 and 0.24 < drawn.max() < 0.25
    holds(ctx, oc.param("e", oc.exp(oc.tensor([0.0, 1.0]))), np.exp([0, 1]))
    holds(ctx, oc.param("f", oc.init(lambda i, j: 10 * i + j), o=[2, 3]), [[0, 1, 2], [10, 11, 12]])


def test_an_array_or_a_number_may_stand_on_the_left(ctx):
    t = oc.tensor([1.0, 2.0])
    for y in (np.float64(2) * t, np.array([2, 2], "float32") * t, 2 * t, np.int32(2) * t, t + t):
        assert isinstance(y, oc.Tensor)
        holds(ctx, y, [2, 4])


def test_a_symbol_is_its_value(ctx):
    n = oc.symbol("n", 0, 10)
    y = oc.tensor([1.0, 2.0]) * n + n
    for k in (0, 9):
        assert oc.evaluate(y, {n: k}, ctx).tolist() == [2 * k, 3 * k]


# --- expressions ------------------------------------------------------------------------------------------------------


def test_comparisons_logic_and_remainders(ctx):
    a, b = np.array([-7, 7, -7, 7, 0], "float32"), np.array([3, -3, -3, 3, 2], "float32")
    holds(ctx, oc.tensor(a) % oc.tensor(b), a % b)
    x, y = np.array([0, 2, 0, -1], "float32"), np.array([0, 0, 3, 1], "float32")
    s, t = oc.tensor(x), oc.tensor(y)
    table = [
        (s & t, (x != 0) & (y != 0)), (s | t, (x != 0) | (y != 0)), (~s, x == 0), (oc.eq(s, t), x == y),
        (oc.ne(s, t), x != y), (s < t, x < y), (s <= t, x <= y), (s > t, x > y), (s >= t, x >= y),
    ]  # fmt: skip
    for got, want in table:
        holds(ctx, got, want)


def test_operations_of_three_and_gates(ctx):
    a, b, c = data(7), data(7) + 1, data(7) - 1
    s, t, u = map(oc.tensor, (a, b, c))
    table = [
        (oc.where(s > 0, t, u), np.where(a > 0, b, c)), (oc.fma(s, t, u), a * b + c), (oc.fst(s, t), a),
        (oc.snd(s, t), b), (oc.relu_gate(s, t), np.where(a > 0, b, 0)),
        (oc.sat01_gate(s, t), np.where((a > 0) & (a < 1), b, 0)),
    ]  # fmt: skip
    for got, want in table:
        holds(ctx, got, want)


@pytest.mark.parametrize(("reduce", "f"), [("add", np.sum), ("mul", np.prod), ("max", np.max), ("min", np.min)])
def test_reductions_by_a_spec(ctx, reduce, f):
    x = data(3, 4, 5)
    holds(ctx, oc.einsum("ijk => ki", oc.tensor(x), reduce=reduce), f(x, axis=1).T, rtol=1e-4)


def test_three_operands_and_other_formulas(ctx):
    a, b, c = data(3, 4), data(4, 5), data(5)
    s, t, u = map(oc.tensor, (a, b, c))
    holds(ctx, oc.einsum("ij; jk; k => i", s, t, u), a @ b @ c, rtol=1e-4, atol=1e-5)
    holds(ctx, oc.einsum("ij; jk => ik", s, t, reduce="max", combine="add"), (a[:, :, None] + b[None]).max(1))
    holds(ctx, oc.einsum("i; j => ij", u, u, combine="sub"), c[:, None] - c[None])
    holds(ctx, oc.einsum("ij; ij; => i", s > 0, s, 0.0, combine="where"), np.where(a > 0, a, 0).sum(1))


def test_names_fix_and_capture_sizes_and_supply_coefficients(ctx):
    d, r, x = oc.Dim("d"), oc.Dim("r"), data(2, 12, 5)
    y = oc.einsum("...|(heads d), ..r.. => ...|heads, d, ..r..", oc.tensor(x, batch_axes=1), heads=3, d=d, r=r)
    holds(ctx, y, x.reshape(2, 3, 4, 5))
    assert (int(d), int(r)) == (4, 5)
    holds(ctx, oc.tensor([8.0]) / oc.sqrt(d) + d // 3, [5])
    p, k = data(11), data(3)
    z = oc.einsum("stride*o<+k; k => o", oc.tensor(p), oc.tensor(k), stride=2)
    holds(ctx, z, [p[2 * o : 2 * o + 3] @ k for o in range(5)], atol=1e-5)


def test_all_axes_go_without_a_spec(ctx):
    x = data(2, 3, 4)
    t = oc.tensor(x, batch_axes=1, input_axes=1)
    for got, want in ((t.sum(), x.sum()), (t.max(), x.max()), (t.mean(), x.mean())):
        holds(ctx, got, want, atol=1e-5)
    holds(ctx, t.T, x.transpose(0, 2, 1))


def test_concatenation_cuts_and_pads(ctx):
    x = data(5)
    t = oc.tensor(x)
    holds(ctx, oc.concat("3^a => a", t), x[3:])
    holds(ctx, oc.concat("a^3 => a", t), x[:2])
    holds(ctx, oc.concat("a => 3^a", t), np.pad(x, (3, 0)))
    holds(ctx, oc.concat("a^b => b", t, a=1), x[1:])
    a, b = data(2, 3), data(2, 4)
    holds(ctx, oc.concat("i,a; i,b => i,a^b", oc.tensor(a), oc.tensor(b)), np.concatenate([a, b], 1))


def test_ids_outside_of_a_table_read_zeros(ctx):
    t = data(3, 2)
    holds(ctx, oc.tensor(t).take(oc.tensor(np.array([0, 3, -1, 2]))), [t[0], [0, 0], [0, 0], t[2]])


def test_narrow_types_are_summed_in_wide_ones(ctx):
    assert oc.evaluate(oc.tensor(np.full(5000, 1, "float16")).sum(), ctx=ctx) == 5000


def test_gradients_stop_where_told(ctx):
    w = oc.param("w", [1.0, 2.0])
    with oc.no_grad():
        fixed = w * 3
    loss = (w * oc.stop_gradient(w) + fixed).sum()
    assert fixed.grad is None
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    assert ctx[w.grad].tolist() == [1, 2]


# --- code -------------------------------------------------------------------------------------------------------------


def test_backprop_does_not_seed(ctx):
    w = oc.param("w", [1.0, 2.0])
    y = w * 3
    ctx.init(y)
    with oc.cd("seed") as seed:
        y.grad[...] = 5
    ctx.run(oc.seq(y.forward, y.zero_grads, seed, y.backprop))
    assert ctx[w.grad].tolist() == [15, 15]


def test_two_results_share_what_they_share(ctx):
    x = oc.tensor([1.0, 2.0])
    s = (x * x).with_label("s")
    a, b = s + 1, s * 3
    assert str(oc.forward(a, b)).count("s[o0] =:") == 1
    ctx.run(oc.forward(a, b))
    assert (ctx[a].tolist(), ctx[b].tolist()) == ([2, 5], [3, 12])


def test_slices_are_read_and_written_in_place(ctx):
    t, n, m, want = node("t", 3, batch=(4,)), oc.symbol("n", 0, 4), oc.symbol("m", 0, 4), data(4, 3)
    with oc.cd("rows") as code:
        t[n] += 2 * t[m]
    ctx[t] = want
    step = ctx.compile(code)
    for at, of in ((1, 1), (0, 3), (3, 0)):
        step(n=at, m=of)
        want[at] += 2 * want[of]
        np.testing.assert_allclose(ctx[t], want, rtol=1e-5)


def test_the_right_side_is_read_before_the_left_is_written(ctx):
    a, x = node("a", 3, 3), data(3, 3)
    with oc.cd("turned") as code:
        a["=:", "ij => ji"] = a
        a["=:+", "ik; kj => ij"] = a * a
        a["=+", "ij => i0"] = a
    ctx[a] = x
    ctx.run(code)
    want = x.T @ x.T
    want[:, 0] += want.sum(1)
    np.testing.assert_allclose(ctx[a], want, rtol=1e-4, atol=1e-4)


def test_an_expression_is_computed_where_it_was_written(ctx):
    a, b = node("a", 3), node("b", 3)
    with oc.cd("order") as code:
        before = a * 2
        a += 1
        b[...] = before + a
    ctx[a], ctx[b] = [1, 2, 3], 0
    ctx.run(code)
    assert ctx[b].tolist() == [4, 7, 10]


def test_a_node_starts_once_in_each_context(backend):
    n = oc.node("n", init=3.0, output=[2])
    with oc.cd("count") as code:
        n += 1
    for _ in range(2):
        with oc.Context(backend) as ctx:
            step = ctx.compile(code)
            step()
            step()
            assert ctx[n].tolist() == [5, 5]


def test_code_is_spliced_by_calling_it(ctx):
    w = oc.param("w", [1.0, 2.0])
    loss, out = (w * w).sum().with_label("loss"), oc.node("out")
    with oc.cd("splice") as code:
        loss.forward  # noqa: B018
        loss.forward()
        out[...] = loss
    ctx.init(loss)
    ctx.run(code)
    assert ctx[out] == 5 and str(code).count("loss =:") == 1


def test_python_decides_while_recording(ctx):
    n = oc.node("n", output=[2])

    @oc.cd
    def fill(times, *, double=False):
        n[...] = 1
        for k in range(times):
            n["=+"] = float(k)
        if double:
            n["=*"] = 2

    for code, want in ((fill(3), 4), (fill(4, double=True), 14)):
        ctx.run(code)
        assert ctx[n].tolist() == [want, want]


def test_state_reads_itself_and_is_called_after_its_parameter(ctx):
    w = oc.param("w", [1.0, 2.0])

    @oc.cd
    def step(p):
        v = oc.node("v")
        v[...] = 0.5 * v + p
        p -= 0.25 * v

    code = step(w)
    ctx.init(w)
    run = ctx.compile(code)
    at, v = np.array([1.0, 2.0]), 0.0
    for _ in range(3):
        run()
        v = 0.5 * v + at
        at = at - 0.25 * v
    np.testing.assert_allclose(ctx[w], at, rtol=1e-6)
    assert "v.w" in str(code) or "v_w" in str(code)


@oc.cd
def adam(p, *, rate, first=0.9, second=0.999):
    t, m, v = oc.node("t"), oc.node("m"), oc.node("v")
    t += 1
    m[...] = first * m + (1 - first) * p.grad
    v[...] = second * v + (1 - second) * p.grad * p.grad
    p -= rate * (m / (1 - first**t)) / (oc.sqrt(v / (1 - second**t)) + 1e-8)


def test_an_optimizer_with_a_count_of_steps(ctx):
    w = oc.param("w", np.array([3.0, -4.0]))
    loss = (w * w).sum()
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), adam(w, rate=0.1)))
    at, m, v = np.array([3.0, -4.0]), 0.0, 0.0
    for t in range(1, 5):
        step()
        g = 2 * at
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        at = at - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(ctx[w], at, rtol=1e-5)


def test_gradients_are_clipped_together(ctx):
    a, b = oc.param("a", [3.0]), oc.param("b", [0.0, 4.0])
    loss = (a * a).sum() + (b * b).sum()

    @oc.cd
    def clipped(*params, bound):
        length = oc.node("length")
        length[...] = 0
        for p in params:
            length += (p.grad * p.grad).sum()
        for p in params:
            oc.assign(p, "mul", oc.minimum(1.0, bound / oc.sqrt(length)), p.grad, accum="sub")

    ctx.init(loss)
    ctx.run(oc.seq(train.grad_update(loss), clipped(a, b, bound=5.0)))
    np.testing.assert_allclose((ctx[a][0], *ctx[b]), (0, 0, 0), atol=1e-6)


def test_what_nothing_has_written_is_refused_with_the_code_that_would(ctx):
    y, n = (oc.tensor([1.0]) * 2).with_label("y"), oc.node("n")
    with oc.cd("copy") as code:
        n[...] = y
    with pytest.raises(oc.UninitializedError, match=r"`y`.*y\.forward"):
        ctx.run(code)
    ctx.run(y.forward)
    ctx.run(code)
    assert ctx[n].tolist() == [2]


def test_what_a_routine_does_not_keep_can_be_named(ctx):
    w = oc.param("w", [1.0, 2.0])
    h = (w * 2).with_label("h")
    loss = (h * h).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    with pytest.raises(oc.UninitializedError, match=r"keep=\[h\]"):
        ctx[h]
    ctx.compile(train.grad_update(loss), keep=[h, h.grad])()
    assert (ctx[h].tolist(), ctx[h.grad].tolist()) == ([2, 4], [4, 8])


def test_a_comment_names_what_is_generated(ctx):
    w = oc.param("w", [1.0])
    with oc.cd("title of code") as code, oc.comment("part", w):
        w += 1
    ctx.init(w)
    step = ctx.compile(code)
    step()
    assert step.name == "title_of_code" and "part w" in step.stages()["lower"] and ctx[w].tolist() == [2]


# --- blocks -----------------------------------------------------------------------------------------------------------


@oc.op
def cell(x, *, width):
    return oc.relu((w := oc.param(o=[width])) @ x + (b := oc.param(0.0, o=[width])))  # noqa: F841


@oc.op
def stacked(x, *, widths):
    for n, width in enumerate(widths):
        x = cell(width=width, label=f"layers.{n}")(x)
    return x


def test_blocks_nest_and_share(ctx):
    net = stacked(widths=[3, 2])
    with pytest.raises(oc.CodeError, match="before it is first applied"):
        net.params  # noqa: B018
    x = oc.tensor(data(5, 4), batch_axes=1)
    y = net(x)
    assert list(net.params) == ["layers.0.w", "layers.0.b", "layers.1.w", "layers.1.b"]
    holds(ctx, y - net(x), np.zeros((5, 2)))
    first, second = (ctx[y.find(f"layers.{n}.w")] for n in range(2))
    holds(ctx, y, np.maximum(np.maximum(data(5, 4) @ first.T, 0) @ second.T, 0))


def test_tied_weights_receive_from_both_uses(ctx):
    e = oc.param("e", data(4, 3), o=[4], i=[3])
    x = data(3)
    loss = (e.T @ (e @ oc.tensor(x))).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    first, ones = data(4, 3), np.ones(3)
    want = np.outer(first @ x, ones) + np.outer(first @ ones, x)
    np.testing.assert_allclose(ctx[e.grad], want, rtol=1e-4, atol=1e-5)

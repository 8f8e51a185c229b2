"""What a context does with tensors, blocks and code."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.base.errors import CodeError, DataError, UninitializedError
from ocannl.runtime import compile_cache


@pytest.fixture
def w():
    return oc.param("w", output=[3], input=[4])


def test_init_initializes_missing_parameters_only(ctx, w):
    y = w @ oc.tensor(np.ones((2, 4), "f4"), batch_axes=1) + oc.param("b", 2.0, output=[3])
    ctx[w] = 1
    ctx.init(y)
    np.testing.assert_array_equal(ctx[w], np.ones((3, 4)))
    np.testing.assert_array_equal(ctx[y.params["b"]], [2, 2, 2])
    ctx[y.params["b"]] = 5
    ctx.init(y)
    np.testing.assert_array_equal(ctx[y.params["b"]], [5, 5, 5])


def test_seeds(ctx, w):
    def drawn(**seed):
        with oc.Context(ctx.backend.name) as second_context:
            second_context.init(w, **seed)
            return second_context[w]

    np.testing.assert_array_equal(drawn(), drawn(seed=42))
    assert (drawn(seed=1) != drawn(seed=2)).any()
    with oc.settings(seed=1):
        np.testing.assert_array_equal(drawn(), drawn(seed=1))


def test_init_code_reinitializes(ctx, w):
    ctx.init(w)
    drawn = ctx[w]
    for act in (lambda: ctx.run(w.init_params), lambda: ctx.init(w.init_params)):
        ctx[w] = 0
        act()
        np.testing.assert_array_equal(ctx[w], drawn)
    ctx.init(w.init_params, seed=7)
    assert (ctx[w] != drawn).any()
    drawn = ctx[w]
    ctx.compile(w.init_params)
    np.testing.assert_array_equal(ctx[w], drawn)


def test_seed_applies_to_initial_expression(ctx):
    w = oc.param("w", init=oc.uniform() * 2.0, output=[8])
    ctx.init(w, seed=1)
    first = ctx[w]
    ctx.init(w.init_params, seed=2)
    assert (ctx[w] != first).any()
    ctx.init(w.init_params, seed=1)
    np.testing.assert_array_equal(ctx[w], first)


def test_lost_parameters_are_reinitialized(ctx, w):
    ctx.init(w)
    drawn = ctx[w]
    ctx.arrays.mark(w.value, False)  # as after an interrupt
    assert w not in ctx
    ctx.init(w)
    np.testing.assert_array_equal(ctx[w], drawn)


def test_init_of_blocks_mappings_and_code(ctx):
    @oc.op
    def layer(x):
        v = oc.param(init=1.0, o=[2])
        return v * x

    block = layer()
    y = block(oc.tensor([1.0, 2.0]))
    with pytest.raises(UninitializedError, match="ctx.init"):
        ctx.run(y.forward)
    ctx.init(block)
    ctx.run(y.forward)
    np.testing.assert_array_equal(ctx[y], [1, 2])
    v = block.params["v"]
    ctx[v] = 3
    ctx.init({"v": v})
    np.testing.assert_array_equal(ctx[v], [3, 3])
    ctx.init(y.init_params)  # code is simply run
    np.testing.assert_array_equal(ctx[v], [1, 1])


def test_keep(ctx, w):
    h = w @ oc.tensor(np.ones(4, "f4"))
    y = oc.tanh(h) + oc.tanh(h * 2)
    ctx.init(y)
    ctx.run(y.forward)
    with pytest.raises(UninitializedError, match=r"keep=\["):
        ctx[h]
    for keep in ([h], h, (h.value,)):
        ctx.compile(y.forward, keep=keep)()
        np.testing.assert_allclose(ctx[h], ctx[w].sum(1), rtol=1e-5)
    assert ctx.compile(y.forward, "named").name == "named"


def test_non_code_raises(ctx, w):
    for wrong, says in [
        (w, "is a tensor, not code; the code that computes it is its `.forward`"),
        (lambda: w, "is a tensor, not code"),
        (3, "expected code, such as tensor.forward"),
        (lambda: 3, "expected code"),
        (None, "expected code"),
    ]:
        with pytest.raises(CodeError, match=says):
            ctx.compile(wrong)
    with pytest.raises(CodeError, match=r"ctx.init takes a tensor, a block or code"):
        ctx.init(3)
    with pytest.raises(CodeError, match="expected a tensor or a node, not 'h'"):
        ctx.compile(w.init_params, keep=["h"])


def test_symbols_of_run(ctx):
    data = oc.tensor(np.arange(6.0, dtype="f4").reshape(3, 2), batch_axes=1)
    n = oc.symbol("n", 0, 3)
    y = data[n] * 2
    ctx.run(y.forward, n=2)
    np.testing.assert_array_equal(ctx[y], [8, 10])
    with pytest.raises(DataError, match="0 <= n < 3, but is 3"):
        ctx.run(y.forward, n=3)


def test_context_is_usable_after_an_error(ctx):
    x = oc.placeholder("x", output=[3])
    y = x * 2.0
    with pytest.raises(UninitializedError, match="`x`"):
        ctx.run(y.forward)
    with pytest.raises(oc.ShapeError, match="`x`"):
        ctx[x] = np.zeros(4)
    ctx[x] = [1, 2, 3]
    ctx.run(y.forward)
    np.testing.assert_array_equal(ctx[y], [2, 4, 6])


def test_in(ctx, w):
    assert w not in ctx
    ctx.init(w)
    assert w in ctx


def test_compile_all_is_a_single_run(monkeypatch):
    x = oc.placeholder("x", o=[3])
    y, z = (x * 3.25).with_label("y"), (x + 7.5).with_label("z")
    ctx = oc.Context("llvm")
    runs = []
    kind, compile_ = type(ctx.backend), type(ctx.backend).compile
    monkeypatch.setattr(
        kind, "compile", lambda self, procs: (runs.append([p.name for p in procs]), compile_(self, procs))[1]
    )
    ctx[x] = [1, 2, 3]
    with oc.settings(cache=False):
        compile_cache.clear()
        first, second, third = ctx.compile_all([y.forward, z.forward, y.forward])
        assert runs == [["y_forward", "z_forward", "y_forward_2"]]
        first(), second(), third()
        assert ctx[y].tolist() == [3.25, 6.5, 9.75] and ctx[z].tolist() == [8.5, 9.5, 10.5]
        again, new = ctx.compile_all([z.forward, (y * z).with_label("p").forward])
        assert runs[1:] == [["p_forward"]]  # the other is remembered
        again(), new()
        assert ctx.compile_all([]) == []

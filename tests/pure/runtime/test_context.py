"""Contexts and routines over nodes, on the reference and on LLVM: what runs, what is then known, what is refused."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

from ocannl.base.config import settings
from ocannl.base.errors import (
    BackendUnavailable,
    CodeError,
    ConfigError,
    DataError,
    MergeBufferError,
    OutOfMemory,
    ShapeError,
    UninitializedError,
    UnknownBackend,
)
from ocannl.ir.affine import Affine
from ocannl.ir.assign import Assign, Call, Index, Piece, Read, Seq
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float16, float32, int32
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.runtime import context as module
from ocannl.runtime.context import Context, default_context


class Constant:
    """Contents that count how often they were asked for."""

    def __init__(self, value):
        self.value, self.seeds = np.asarray(value), []

    def array(self, dims, precision, seed):
        self.seeds.append(seed)
        return np.broadcast_to(self.value, dims)


def layer(build, ctx, keep=(), name="step"):
    nodes, code = build.layer()
    return nodes, ctx.compile_comp(code, {nodes[n]: "keep=" for n in keep}, name)


def fill(ctx, rng, *nodes):
    arrays = [rng.normal(size=n.dims).astype("f4") for n in nodes]
    for node, array in zip(nodes, arrays, strict=True):
        ctx.set(node, array)
    return arrays


def test_a_layer(build, ctx, rng):
    nodes, step = layer(build, ctx)
    w, x = fill(ctx, rng, nodes["w"], nodes["x"])
    step()
    np.testing.assert_allclose(ctx.get(nodes["y"]), np.maximum(x @ w.T, 0), rtol=1e-5)
    ctx.set(nodes["x"], -x)
    step()
    np.testing.assert_allclose(ctx.get(nodes["y"]), np.maximum(-x @ w.T, 0), rtol=1e-5)


def test_routines_of_a_context_share_its_arrays(build, ctx):
    x, y, z = build.node("x", 3), build.result("y", 3), build.result("z", 3)
    first = ctx.compile_comp(build.pointwise(y, "add", x, 1), name="first")
    second = ctx.compile_comp(build.pointwise(z, "mul", y, 2), name="second")
    ctx.set(x, [1, 2, 3])
    first()
    second()
    np.testing.assert_array_equal(ctx.get(z), [4, 6, 8])


def test_contexts_do_not_share(build, ctx):
    x = build.node("x", 3)
    with Context(ctx.backend.name) as second_context:
        ctx.set(x, [1, 2, 3])
        assert not second_context.is_initialized(x)
        second_context.set(x, 0)
        np.testing.assert_array_equal(ctx.get(x), [1, 2, 3])


def test_a_static_symbol_picks_a_slice(build, ctx):
    x, y, n = build.node("x", 5, 3), build.result("y", 3), build.static("n", 0, 5)
    (i,) = build.over(3)
    at = Affine.of
    code = Assign(y, None, True, (Piece((i,), (at(i),), Read(x, (at(n), at(i)))),))
    pick = ctx.compile_comp(code, name="pick")
    data = np.arange(15).reshape(5, 3)
    ctx.set(x, data)
    for value in (0, 4, np.int64(2), np.uint8(3)):
        pick(n=value)
        np.testing.assert_array_equal(ctx.get(y), data[value])
    for arguments, error, says in [
        ({}, CodeError, r"routine `pick` needs the symbol `n`, e.g. pick\(n=0\)"),
        ({"n": 5}, DataError, "symbol `n` of routine `pick` must satisfy 0 <= n < 5, but is 5"),
        ({"n": -1}, DataError, "but is -1"),
        ({"n": True}, CodeError, "is an integer, not True"),
        ({"n": 1.0}, CodeError, "is an integer, not 1.0"),
        ({"n": None}, CodeError, "is an integer, not None"),
        ({"n": 1, "m": 2}, CodeError, "has no symbol `m`; it has n"),
        ({"n": 1, "nn": 2}, CodeError, "has no symbol `nn`; did you mean `n`"),
    ]:
        with pytest.raises(error, match=says):
            pick(**arguments)
    np.testing.assert_array_equal(ctx.get(y), data[3])  # errors before the launch changed nothing


def test_several_symbols_are_passed_in_order(build, ctx):
    y, a, b = build.result("y"), build.static("a", 0, 10), build.static("b", -5, 10)
    value = Call(ADD, (Index(Affine.of(a) * 100), Index(Affine.of(b))))
    routine = ctx.compile_comp(Assign(y, None, True, (Piece((), (), value),)), name="pair")
    routine(b=-3, a=7)
    assert ctx.get(y) == 697
    assert repr(routine) == f"<routine pair(a in 0..10, b in -5..10) on {ctx.backend.name}>"


def test_a_routine_without_symbols_takes_none(build, ctx):
    x, y = build.node("x", 3), build.result("y", 3)
    routine = ctx.compile_comp(build.pointwise(y, "neg", x), name="plain")
    ctx.set(x, 1)
    with pytest.raises(CodeError, match="routine `plain` has no symbols, but `n` is given"):
        routine(n=3)


# ----------------------------------------------------------------------------------------------- what is initialized


def test_uninitialized_input_raises_when_run(build, ctx):
    nodes, step = layer(build, ctx)
    with pytest.raises(UninitializedError) as caught:
        step()
    assert str(caught.value) == (
        "routine `step` reads uninitialized nodes: `w`: it has no initial value yet; run ctx.init(...) of what"
        " uses it, or set ctx[w] = array; `x`: it was never set; set ctx[x] = array"
    )
    ctx.set(nodes["w"], 1)
    with pytest.raises(UninitializedError, match=r"nodes: `x`"):
        step()
    assert not ctx.is_initialized(nodes["y"])
    ctx.set(nodes["x"], 1)
    step()
    np.testing.assert_array_equal(ctx.get(nodes["y"]), np.full((2, 3), 4))


@pytest.mark.parametrize(
    ("role", "says"),
    [
        (Role.PARAMETER, "no initial value yet; run ctx.init"),
        (Role.PLACEHOLDER, r"never set; set ctx\[q\] = array"),
        (Role.GRADIENT, "no code that computes gradients has run, such as train.grad_update"),
        (Role.RESULT, "no code that computes it has run, such as q.forward"),
        (Role.STATE, "never set"),
    ],
)
def test_message_names_the_remedy(build, ctx, role, says):
    q = build.node("q", 2, role=role)
    with pytest.raises(UninitializedError, match=f"`q` holds no value in this context: .*{says}"):
        ctx.get(q)


def test_message_limits_missing_inputs(build, ctx):
    xs, y = [build.node(f"x{n}", 2) for n in range(8)], build.result("y", 2)
    code = Seq(tuple(build.pointwise(y, "id", x, accum=ADD, clear=n == 0) for n, x in enumerate(xs)))
    with pytest.raises(UninitializedError, match="`x0`.*`x4`.*; and 3 more$"):
        ctx.compile_comp(code)()


def test_reading_a_temporary_suggests_keep_and_names_the_rule(build, ctx):
    nodes, step = layer(build, ctx)
    ctx.set(nodes["w"], 1)
    ctx.set(nodes["x"], 1)
    step()
    with pytest.raises(UninitializedError) as caught:
        ctx.get(nodes["h"])
    assert str(caught.value) == (
        "`h` holds no value in this context: it is temporary in routine `step`: read only inside `step`;"
        " compile that with keep=[h]"
    )
    assert step.placements[nodes["h"]].placement is Placement.TEMPORARY
    assert nodes["h"].placement == step.placements[nodes["h"]]
    nodes, kept = layer(build, ctx, ["h"])
    ctx.set(nodes["w"], 1)
    ctx.set(nodes["x"], 1)
    kept()
    np.testing.assert_array_equal(ctx.get(nodes["h"]), np.full((2, 3), 4))


def test_stale_value_of_a_temporary_is_invalid(build, ctx):
    nodes, code = build.layer()
    kept = ctx.compile_comp(code, {nodes["h"]: "keep="}, "kept")
    step = ctx.compile_comp(code, {}, "step")
    ctx.set(nodes["w"], 1)
    ctx.set(nodes["x"], 1)
    for _ in range(2):
        kept()
        assert ctx.is_initialized(nodes["h"])
        step()
        step()
        assert not ctx.is_initialized(nodes["h"])
        with pytest.raises(UninitializedError, match="temporary in routine `step`"):
            ctx.get(nodes["h"])


def test_state_contents_are_uploaded_once(build, ctx):
    start = Constant(10)
    total, x = build.node("total", 2, role=Role.STATE, contents=start), build.node("x", 2)
    add = build.pointwise(total, "id", x, accum=ADD, clear=False)
    first = ctx.compile_comp(add, name="first")
    ctx.set(x, 1)
    first()
    second = ctx.compile_comp(add, name="second")
    second()
    np.testing.assert_array_equal(ctx.get(total), [12, 12])
    assert start.seeds == [42]
    with Context(ctx.backend.name) as second_context:
        np.testing.assert_array_equal(second_context.get(total), [10, 10])


def test_contents_are_uploaded_when_code_is_linked_or_read(build, ctx):
    data = build.node("data", 2, role=Role.DATA, contents=Constant([1, 2]))
    alone = build.node("alone", 2, role=Role.DATA, contents=Constant([3, 4]), precision=int32)
    y = build.result("y", 2)
    double = ctx.compile_comp(build.pointwise(y, "add", data, data))
    assert ctx.is_initialized(data)
    double()
    np.testing.assert_array_equal(ctx.get(y), [2, 4])
    np.testing.assert_array_equal(ctx.get(alone), [3, 4])
    assert ctx.get(alone).dtype == np.int32


def test_contents_that_are_overwritten_are_not_uploaded(build, ctx):
    start = Constant(1)
    y, x = build.node("y", 2, role=Role.STATE, contents=start), build.node("x", 2)
    ctx.set(x, 5)
    ctx.compile_comp(build.pointwise(y, "neg", x))()
    np.testing.assert_array_equal(ctx.get(y), [-5, -5])
    assert start.seeds == []


def test_parameters_with_contents_wait_for_init(build, ctx):
    start = Constant(7)
    w, y = build.param("w", 2, contents=start), build.result("y", 2)
    routine = ctx.compile_comp(build.pointwise(y, "neg", w))
    with pytest.raises(UninitializedError, match="run ctx.init"):
        routine()
    with pytest.raises(UninitializedError):
        ctx.get(w)
    ctx.upload_contents(w, seed=3)
    assert start.seeds == [3]
    routine()
    np.testing.assert_array_equal(ctx.get(y), [-7, -7])


def test_the_seed_is_a_setting(build, ctx):
    start = Constant(0)
    with settings(seed=5):
        ctx.get(build.node("d", 2, role=Role.DATA, contents=start))
    assert start.seeds == [5]


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 1])
@pytest.mark.parametrize("dims", [(), (3,), (2, 0), (2, 3)])
def test_repeated_contents(build, ctx, value, dims):
    node = build.node("d", *dims, role=Role.DATA, contents=Constant(value))
    ctx.set(node, 5)
    ctx.upload_contents(node, again=True)
    result = ctx.get(node)
    np.testing.assert_array_equal(result, np.full(dims, value, "float32"))
    np.testing.assert_array_equal(np.signbit(result), np.full(dims, np.signbit(value)))


def test_interrupted_call_invalidates_outputs(build, fake):
    ctx = Context("fake")
    nodes, step = layer(build, ctx)
    ctx.set(nodes["w"], 1)
    ctx.set(nodes["x"], 1)
    step()
    assert ctx.is_initialized(nodes["y"])

    def interrupted(*values):
        raise KeyboardInterrupt

    step._entry = interrupted
    with pytest.raises(KeyboardInterrupt):
        step()
    assert not ctx.is_initialized(nodes["y"])
    assert ctx.is_initialized(nodes["w"])
    step._entry = lambda: None
    step()
    assert ctx.is_initialized(nodes["y"])


def test_repeated_calls_skip_checks(build, fake, monkeypatch):
    ctx = Context("fake")
    nodes, step = layer(build, ctx)
    ctx.set(nodes["w"], 1)
    ctx.set(nodes["x"], 1)
    step()
    looked = []
    require = Context.prepare_run
    monkeypatch.setattr(Context, "prepare_run", lambda self, program: looked.append(1) or require(self, program))
    step()
    ctx.set(nodes["x"], 2)  # it held something before: nothing new is known
    step()
    assert not looked
    ctx.set(build.node("stranger", 2), 1)
    step()
    assert looked == [1]


# ------------------------------------------------------------------------------------------------- values from outside


def test_setting_and_getting(build, ctx):
    x = build.node("x", 2, 3, precision=float16)
    array_ = np.arange(6.0).reshape(3, 2).T
    ctx[x] = array_
    out = ctx[x]
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, array_)
    out[...] = 0
    np.testing.assert_array_equal(ctx[x], array_)  # it was a copy
    ctx[x] = 2
    np.testing.assert_array_equal(ctx[x], np.full((2, 3), 2))


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_set_copies_the_array(build, ctx, queue):
    x = build.node("x", 200, 300)
    array_ = np.arange(60000, dtype=np.float32).reshape(200, 300)
    with Context(ctx.backend.name, queue=queue) as queued_context:
        for shift in range(3):
            queued_context.set(x, array_)
            array_ += 1
            out = queued_context.get(x)
            np.testing.assert_array_equal(out, array_ - 1)
            out[...] = shift
            np.testing.assert_array_equal(queued_context.get(x), array_ - 1)


def test_rejected_value_has_no_effect(build, ctx):
    x = build.node("x", 2, precision=int32)
    ctx[x] = [1, 2]
    for wrong in ([1, 2, 3], [0.5, 1], [2**40, 0], "no", None):
        with pytest.raises((ShapeError, DataError, Exception), match="`x`"):
            ctx[x] = wrong
    np.testing.assert_array_equal(ctx[x], [1, 2])


def test_arrays_of_size_zero(build, ctx):
    x, y = build.node("x", 0, 3), build.result("y", 0, 3)
    ctx[x] = np.zeros((0, 3))
    ctx.compile_comp(build.pointwise(y, "neg", x))()
    assert ctx[y].shape == (0, 3)


def test_empty_sum_is_the_neutral_element(build, ctx):
    w, x, y = build.node("w", 3, 0), build.node("x", 2, 0), build.result("y", 2, 3)
    ctx[w], ctx[x] = np.zeros((3, 0)), np.zeros((2, 0))
    ctx.compile_comp(build.matmul(y, w, x))()
    np.testing.assert_array_equal(ctx[y], np.zeros((2, 3)))


def test_too_large_node_raises_out_of_memory(build, ctx):
    x, y = build.node("x", 2**20, 2**30), build.result("y", 2**20, 2**30)
    start = Constant(0)
    z = build.node("z", 2**20, 2**30, role=Role.DATA, contents=start)
    acts = (lambda: ctx.set(x, 0), lambda: ctx.compile_comp(build.pointwise(y, "neg", x)), lambda: ctx.get(z))
    for act in acts:
        with pytest.raises(OutOfMemory, match=r"`[xyz]` of sizes \(1048576, 1073741824\) takes 4503599627370496"):
            act()
    assert start.seeds == []
    small = build.node("small", 2)
    ctx.set(small, 1)
    np.testing.assert_array_equal(ctx.get(small), [1, 1])


def test_non_node_raises(build, ctx):
    with pytest.raises(CodeError, match=r"`.grad` of a tensor without gradient is None"):
        ctx[None]
    with pytest.raises(CodeError, match="expected a tensor or a node, not 3"):
        ctx[3] = 1


# ------------------------------------------------------------------------------------------------------- refusals, end


def test_unknown_backend_or_device_raises():
    with pytest.raises(UnknownBackend, match="numpy"):
        Context("no_such_backend")
    for device in (10_000, -1, True, "0", None):
        with pytest.raises(BackendUnavailable, match=r"backend `numpy` has devices 0 to \d+, not"):
            Context("numpy", device=device)
    with pytest.raises(ConfigError, match="threads = 0, from argument"):
        Context("numpy", threads=0)


def test_unfilled_merge_buffer_raises(build, ctx):
    x, y = build.node("x", 2), build.result("y", 2)
    (i,) = build.over(2)
    code = Assign(y, None, True, (Piece((i,), (Affine.of(i),), Read(x, (Affine.of(i),), merge=True)),))
    with pytest.raises(MergeBufferError, match="`step` reads the merge buffer of `x`, and no transfer"):
        ctx.compile_comp(code, name="step")


def test_names_become_identifiers(build, ctx):
    x, y = build.node('"; drop', 2), build.result("y", 2)
    code = build.pointwise(y, "neg", x)
    assert ctx.compile_comp(code, name="a step: 1/2").name == "a_step_1_2"
    assert ctx.compile_comp(code, name="").name == "routine"
    assert ctx.compile_comp(code, name="...").name == "routine"


def test_memory_is_freed(build, ctx):
    gc.collect()  # what other tests left
    before = ctx.device.bytes_in_use
    nodes, step = layer(build, ctx)
    ctx.set(nodes["w"], 1)
    assert ctx.device.bytes_in_use > before
    arena = ctx.arrays.arena(1).size_bytes
    del nodes, step
    gc.collect()
    assert ctx.device.bytes_in_use == before + arena


def test_routine_keeps_memory_alive(build, ctx, rng):
    nodes, step = layer(build, ctx)
    w, x = fill(ctx, rng, nodes["w"], nodes["x"])
    y = nodes["y"]
    del nodes
    gc.collect()
    step()
    np.testing.assert_allclose(ctx.get(y), np.maximum(x @ w.T, 0), rtol=1e-5)


def test_routine_keeps_smaller_arena(build, ctx, rng):
    nodes, step = layer(build, ctx)
    w, x = fill(ctx, rng, nodes["w"], nodes["x"])
    big, bigger, biggest = build.node("big", 4096), build.result("bigger", 4096), build.result("biggest", 4096)
    more = Seq((build.pointwise(bigger, "tanh", big), build.pointwise(biggest, "add", bigger, bigger)))
    second_context = ctx.compile_comp(more)
    ctx.set(big, 1)
    second_context()
    step()
    gc.collect()
    np.testing.assert_allclose(ctx.get(nodes["y"]), np.maximum(x @ w.T, 0), rtol=1e-5)
    np.testing.assert_allclose(ctx.get(biggest)[0], 2 * np.tanh(1), rtol=1e-5)


def test_close_frees_memory(build):
    gc.collect()  # what other tests left
    ctx = Context("numpy")
    before = ctx.device.bytes_in_use
    nodes, step = layer(build, ctx)
    ctx.set(nodes["w"], 1)
    ctx.set(nodes["x"], 1)
    step()
    ctx.close()
    ctx.close()
    assert ctx.device.bytes_in_use == before
    for act in (
        step,
        lambda: ctx.get(nodes["y"]),
        lambda: ctx.set(nodes["x"], 1),
        lambda: ctx.upload_contents(nodes["x"]),
        lambda: layer(build, ctx),
    ):
        with pytest.raises(CodeError, match="this context is closed"):
            act()


def test_contexts_and_routines_are_neither_copied_nor_pickled(build, ctx):
    _, step = layer(build, ctx)
    for value_, says in ((ctx, r"oc.save\(path, ctx, t\)"), (step, "compile it in the other process")):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(CodeError, match=says):
                act(value_)


def test_default_context_per_backend(monkeypatch):
    monkeypatch.setattr(module, "_defaults", {})
    assert default_context("numpy") is default_context("numpy")
    with settings(backend="numpy"):
        assert default_context() is default_context("numpy")


def test_threads_may_share_a_context(build, ctx):
    """Calls of routines that share an arena do not mix."""
    n, failures = 400, []
    steps = []
    for k in range(4):
        nodes, step = layer(build, ctx, name=f"step{k}")
        ctx.set(nodes["w"], k)
        ctx.set(nodes["x"], 1)
        steps.append((nodes["y"], step, 4 * k))

    def work(y, step, wanted):
        for _ in range(n // 4):
            step()
            if not (ctx.get(y) == wanted).all():
                failures.append(wanted)

    threads = [threading.Thread(target=work, args=pair) for pair in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_routine_attributes(build, ctx):
    nodes, step = layer(build, ctx)
    assert set(step.inputs) == {nodes["w"], nodes["x"]}
    assert step.outputs == (nodes["y"],)
    assert step.name == "step"
    assert "step" in step.source()
    assert next(iter(step.stages())) == "lower"
    assert {n.label: d.placement.value for n, d in step.placements.items()} == {
        "h": "temporary", "w": "kept", "x": "kept", "y": "kept",
    }  # fmt: skip


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_dlpack_export_shares_memory(queue):
    x, y = (TNode(name, Role.PLACEHOLDER, lambda: (2, 3), lambda: float32) for name in "xy")
    ctx = Context("numpy", queue=queue)
    ctx.set(x, np.arange(6.0).reshape(2, 3))
    seen = np.from_dlpack(ctx.share(x))
    assert seen.tolist() == [[0, 1, 2], [3, 4, 5]]
    ctx.set(x, 7)
    ctx.synchronize()
    assert seen.tolist() == [[7, 7, 7]] * 2
    with pytest.raises(UninitializedError):
        ctx.share(y)
    ctx.close()
    assert seen.tolist() == [[7, 7, 7]] * 2

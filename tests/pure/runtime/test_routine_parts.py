"""Routines with host calls: split, cached, inspected and called like other routines."""

import logging

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import LabeledBlock, Seq, assigns
from ocannl.ir.host_call import HostCall
from ocannl.runtime import compile_cache
from ocannl.runtime.host_calls import split

MATRIX = np.array([[2.0, 1.0], [1.0, 3.0]])


def loss_of(w, scale=2.0):
    inverse = oc.linalg.inv(scale * w).with_label("inverse")
    return (inverse * inverse).sum().with_label("loss")


def step(context, **settings):
    w = oc.param("w", MATRIX)
    loss = loss_of(w, **settings)
    context.init(loss)
    return w, loss, context.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)), name="step")


def expected(w):
    inverse = np.linalg.inv(2 * w)
    return (inverse**2).sum()


def test_the_parts_of_code_keep_headings_and_order():
    w = oc.param("w", MATRIX)
    comp = train.grad_update(loss_of(w)).elaborate().comp
    parts = list(split(comp))
    assert [isinstance(part, HostCall) for part in parts] == [False, True, False, True, False]
    for part in parts[::2]:
        assert isinstance(part, Seq | LabeledBlock)
    joined = [a for part in parts if not isinstance(part, HostCall) for a in assigns(part)]
    assert joined == list(assigns(comp))


def test_steps_continue_from_each_other(ctx):
    w, loss, routine = step(ctx)
    for _ in range(3):
        before = ctx[w]
        routine()
        np.testing.assert_allclose(ctx[loss], expected(before), rtol=1e-12)
        assert not np.array_equal(ctx[w], before)


def test_inputs_and_outputs_are_those_of_all_parts(ctx):
    w, loss, routine = step(ctx)
    assert w.node in routine.inputs
    assert {w.node, loss.node} <= set(routine.outputs)
    assert loss.node not in routine.inputs  # a part reads it after another has written it
    reasons = {str(decision.author) for decision in routine.placements.values()}
    assert "operand of the host call `inv`" in reasons


def test_uninitialized_inputs_are_refused_before_any_part_runs(ctx):
    x = oc.placeholder("x", output=[2, 2])
    y = oc.placeholder("y", output=[2, 2])
    routine = ctx.compile((oc.linalg.inv(x) + y).with_label("z").forward)
    ctx[x] = MATRIX
    with pytest.raises(oc.UninitializedError, match="`y`"):
        routine()


def test_static_symbols_reach_the_parts_that_use_them(ctx):
    n = oc.symbol("n", 0, 3)
    k = oc.symbol("k", 0, 2)
    stack = oc.tensor(np.stack([MATRIX, 2 * MATRIX, 3 * MATRIX]), batch_axes=1)
    inverse = oc.linalg.inv(stack[n])
    routine = ctx.compile((inverse * (k + 1.0)).with_label("z").forward, keep=inverse)
    for i in range(3):
        for j in range(2):
            routine(n=i, k=j)
            np.testing.assert_allclose(ctx[inverse], np.linalg.inv((i + 1) * MATRIX), rtol=1e-12)
    with pytest.raises(oc.CodeError, match="needs the symbol `k`"):
        routine(n=0)


def test_parts_are_cached_in_memory_and_on_disk(private_cache, monkeypatch):
    pytest.importorskip("llvmlite")
    context = oc.Context("llvm")
    compiled = []
    compile_ = type(context.backend).compile

    def counting(self, procs):
        compiled.append(len(procs))
        return compile_(self, procs)

    monkeypatch.setattr(type(context.backend), "compile", counting)
    step(context)
    assert sum(compiled) >= 3
    compiled.clear()
    step(context)
    assert not compiled
    compile_cache.clear()
    _, loss, routine = step(context)
    assert not compiled  # restored from disk
    routine()
    np.testing.assert_allclose(context[loss], expected(MATRIX), rtol=1e-12)


def test_source_stages_and_text(ctx):
    _, _, routine = step(ctx)
    assert "inverse =: host inv(mul)" in routine.source()
    native = [part.code.source for part in routine.program.parts if not isinstance(part, HostCall)]
    assert all(routine.source().count(text) == 1 for text in native)
    stages = routine.stages()
    assert {"lower", "simplify"} <= set(stages)
    assert stages["lower"].count("proc step_part") == 3


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_profiles_have_a_row_for_each_call(ctx, queue):
    with oc.Context(ctx.backend.name, queue=queue) as context:
        w, _, routine = step(context)
        before = context[w]
        profile = routine.profile(calls=2)
        rows = {row.name: row for row in profile.rows}
        assert rows["host inv"].calls == 2
        assert (rows["host inv"].read_bytes, rows["host inv"].written_bytes) == (32, 32)
        assert profile.call_ns > 0
        np.testing.assert_array_equal(context[w], before)


def test_the_first_nan_of_a_call_is_found(ctx, monkeypatch):
    monkeypatch.setenv("OCANNL_CHECK_NUMBERS", "1")
    x = oc.tensor(MATRIX, label="x")

    @oc.defop
    def spoiled(x):
        def forward(v, v1):
            v["=:"] = oc.host_call(lambda a: a * np.nan, v1)

        return forward, None

    y = spoiled(x).with_label("y")
    with pytest.raises(oc.DataError, match="the first NaN is in `y`"):
        ctx.run((y + 1.0).forward)


def test_traces_of_parts(ctx, caplog, monkeypatch):
    monkeypatch.setenv("OCANNL_TRACE", "100")
    x = oc.tensor(MATRIX, label="x")
    with caplog.at_level(logging.DEBUG, "ocannl.trace"):
        ctx.run((oc.linalg.inv(2.0 * x) + 1.0).with_label("z").forward)
    assert any("z[" in record.getMessage() for record in caplog.records)


def test_calls_of_routines_in_several_contexts():
    results = []
    for _ in range(2):
        with oc.Context("numpy") as context:
            _, loss, routine = step(context)
            routine()
            results.append(context[loss])
    assert results[0] == results[1]


def test_a_failed_call_leaves_outputs_uninitialized(ctx):
    x = oc.placeholder("x", output=[2, 2])
    z = (oc.linalg.inv(x) + 1.0).with_label("z")
    routine = ctx.compile(z.forward)
    ctx[x] = MATRIX
    routine()
    assert z in ctx
    ctx[x] = np.zeros((2, 2))
    with pytest.raises(oc.HostCallError, match="Singular matrix"):
        routine()
    assert z not in ctx
    ctx[x] = MATRIX
    routine()
    np.testing.assert_allclose(ctx[z], np.linalg.inv(MATRIX) + 1, rtol=1e-6)


def test_loops_refuse_host_calls(ctx):
    w = oc.param("w", MATRIX)

    def cell(h, _):
        return oc.linalg.inv(h + w), None

    last, _ = oc.scan(cell, oc.tensor(MATRIX), None, length=2)
    with pytest.raises(oc.CodeError, match="host call `inv` is inside a loop or a condition"):
        last.numpy(ctx)


def test_virtual_operands_are_refused(ctx):
    x = oc.virtual((oc.tensor(MATRIX) * 2.0).with_label("x"))
    with pytest.raises(oc.CodeError, match="has to keep it: operand of the host call `inv`"):
        oc.linalg.inv(x).numpy(ctx)


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_arrays_in_device_memory_are_copied(ctx, queue, monkeypatch):
    """The path of devices whose memory the host does not see."""
    monkeypatch.setattr("ocannl.runtime.host_calls.CpuQueue", type(None))
    with oc.Context(ctx.backend.name, queue=queue) as context:
        _, loss, routine = step(context)
        routine()
        np.testing.assert_allclose(context[loss], expected(MATRIX), rtol=1e-12)

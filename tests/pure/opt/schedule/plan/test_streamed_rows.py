"""Reductions across rows of arrays that come from memory: which plans read a few rows at a time, with which results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule import schedule as scheduling
from ocannl.opt.schedule.loop_generation.blocked_summation import (
    additions_per_term,
    block_sizes,
    short_block_sizes,
)
from ocannl.opt.schedule.plan import TilePlan

SMALL_CPU = Cpu(l2=CacheLevel(1 << 10, 4, 16, 48), page_bytes=256)  # the arrays of these tests come from memory
CACHED, SMALL = (Capabilities(vector_bytes=16, vector_registers=16, cpu=cpu) for cpu in (Cpu(), SMALL_CPU))

FUNCTIONS = {
    "sum": (lambda x: x.sum("...j k => ...k"), lambda x: x.sum(-2)),
    "mean": (lambda x: x.mean("...j k => ...k"), lambda x: x.mean(-2)),
    "max": (lambda x: x.max("...j k => ...k"), lambda x: x.max(-2)),
    "argmin": (lambda x: oc.argmin(x, "...j k => ...k"), lambda x: x.argmin(-2)),
}  # fmt: skip


def planned(y: oc.Tensor, target: Capabilities, monkeypatch: pytest.MonkeyPatch) -> tuple[Proc, list[TilePlan]]:
    """The program of a tensor, and the plans of its reductions."""
    plans: list[TilePlan] = []

    def spy(*arguments):
        plan = model_plan(*arguments)
        if isinstance(plan, TilePlan) and plan.reduction_syms:
            plans.append(plan)
        return plan

    model_plan = scheduling.model_plan
    with monkeypatch.context() as patch:
        patch.setattr(scheduling, "model_plan", spy)
        proc = optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, target)
    verify(proc, "placed", alignment_bytes=target.alignment_bytes)
    return proc, plans


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(33, 200), (70, 129), (9, 40, 150), (9, 37, 30)])
def test_results_do_not_depend_on_caches(name, shape, monkeypatch):
    monkeypatch.setattr(machine, "MIN_SPLIT_ITERATIONS", 1000)
    ours, expected = FUNCTIONS[name]
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    tensor = oc.tensor(x)
    y = ours(tensor)
    results = []
    for target in (CACHED, SMALL):
        proc, _ = planned(y, target, monkeypatch)
        results.append(interpret(proc, {tensor.node: x})[y.node])
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0].reshape(expected(x).shape), expected(x.astype("f8")), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("shape", "page_bytes", "tile", "rows"), [
    ((9, 37, 300), 256, 16, machine.STREAMED_ROWS),  # prefetchers follow a row in each page
    ((9, 37, 300), 4096, 16, 1),
    ((9, 37, 52), 4096, 52, 0),  # accumulators of a whole row fit the registers
])  # fmt: skip
def test_rows_at_a_time(shape, page_bytes, tile, rows, monkeypatch):
    target = replace(SMALL, cpu=replace(SMALL_CPU, page_bytes=page_bytes))
    _, (plan,) = planned(oc.placeholder("x", output=list(shape)).max("ijk => ik"), target, monkeypatch)
    assert (plan.tile_sizes[plan.vector], plan.k_block) == (tile, rows)
    assert list(plan.tile_sizes) == [plan.vector]


def test_cached_arrays_have_tiles_down_all_rows(monkeypatch):
    _, (plan,) = planned(oc.placeholder("x", output=[9, 37, 300]).max("ijk => ik"), CACHED, monkeypatch)
    assert not plan.k_block


def test_threads_share_strips_of_results(monkeypatch):
    _, (plan,) = planned(oc.placeholder("x", output=[100, 1 << 16]).max("jk => k"), CACHED, monkeypatch)
    assert plan.strip is not None and plan.k_block == machine.STREAMED_ROWS
    _, (plan,) = planned(oc.placeholder("x", output=[1009, 800]).max("jk => k"), CACHED, monkeypatch)
    assert plan.strip is None and not plan.k_block  # strips would be short


@pytest.mark.parametrize(("rows", "parts"), [(100, 0), (256, 8), (1000, 25), (1 << 13, 64)])
def test_parts_have_many_long_rows(rows, parts, monkeypatch):
    proc, _ = planned(oc.placeholder("x", output=[rows, 1 << 14]).sum("jk => k"), CACHED, monkeypatch)
    assert [buf.shape[0] for buf in proc.bufs if "parts" in buf.name] == [parts] * bool(parts)


@pytest.mark.parametrize("limit", [30, 94, 124])
def test_short_blocks_need_no_more_additions(limit):
    for extent in range(1, 3000):
        sizes = short_block_sizes((extent,), limit, machine.STREAMED_ROWS)
        if sizes:
            (count,), (size,) = sizes
            assert (count - 1) * size < extent <= count * size
            assert additions_per_term(sizes) <= additions_per_term(block_sizes((extent,), limit))
        else:
            assert extent <= 4 * machine.STREAMED_ROWS or extent > limit

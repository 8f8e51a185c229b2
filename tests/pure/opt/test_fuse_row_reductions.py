"""Sums over rows, taken along by nests that go through these anyway, and long sums in parts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import Chain, chain

import ocannl as oc
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.fusion.fuse_outer_loops import fuse_outer_loops
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.parallel.split_reductions import choose_part_count, split_reductions
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate

TARGET = Capabilities(vector_bytes=16)
LATE = frozenset({
    "fuse_outer_loops", "split_reductions", "schedule", "eliminate_common_subexpressions", "use_nontemporal_stores",
    "parallelize", "insert_polls", "allocate_memory",
})  # fmt: skip


def taken(made: Chain) -> Proc:
    """With every sum taken along that may be."""
    proc = optimize(lower(made.code, "step"), made.asked, TARGET, without=LATE)
    return fuse_outer_loops(proc, TARGET, min_bytes_saved=0)


def divided(made: Chain) -> Proc:
    """With every sum divided that may be."""
    return split_reductions(optimize(lower(made.code, "step"), made.asked, TARGET, without=LATE), min_iterations=1)


def carries(proc: Proc) -> bool:
    return any("_parts" in buf.name for buf in proc.bufs)


@pytest.mark.slow
@pytest.mark.parametrize("make", [taken, divided])
def test_random_programs_compute_the_same(make: Callable[[Chain], Proc]) -> None:
    found = 0
    for seed in range(1500):
        made = chain(Random(seed))
        proc = make(made)
        if not carries(proc):
            continue
        found += 1
        proc = parallelize(proc, 1, 1)
        verify(proc, "optimized")
        wanted = evaluate(made.code, made.arrays, {}, {})
        for node, array in interpret(proc, made.arrays, iteration_order=Random(seed)).items():
            want = wanted.get(node, made.arrays[node])
            assert np.array_equal(array, want), f"chain {seed}\n{print_proc(proc)}{node}\n{want}\n{array}"
    assert found > 20


def test_parts_are_of_equal_length() -> None:
    assert [choose_part_count(n) for n in (1, 7, 64, 96, 4096, 4099)] == [1, 7, 64, 48, 64, 1]
    counts = {n: choose_part_count(n) for n in range(1, 500)}
    assert all(n % count == 0 and count <= machine.MAX_REDUCTION_PARTS for n, count in counts.items())


def test_terms_do_not_read_the_total_of_a_sum_that_is_taken_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """As deviations from the mean of a batch: they are known when the mean is complete."""
    monkeypatch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    x = oc.tensor(np.arange(96, dtype=np.float32).reshape(16, 6) % 7 - 3, batch_axes=1)
    y = oc.softmax(x)
    centred = y - y.mean("n|c => c")
    z = (centred * centred).sum()
    code = z.forward.elaborate().comp
    proc = optimize(lower(code, "step"), {}, TARGET, without=LATE | {"choose_layouts"})
    proc = fuse_outer_loops(proc, TARGET, min_bytes_saved=0)
    assert [buf.name for buf in proc.bufs if "_parts" in buf.name] == ["mean_parts"]
    verify(proc, "optimized")
    wanted = evaluate(code, {}, {}, {})
    np.testing.assert_allclose(interpret(proc, {})[z.node], wanted[z.node], rtol=1e-5)

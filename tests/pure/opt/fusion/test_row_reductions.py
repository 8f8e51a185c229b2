"""Sums over rows, taken along by nests that go through these anyway, and long sums in parts."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import chain

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
from ocannl.opt.schedule.schedule import schedule
from ocannl.testing.evaluate import evaluate

TARGET = Capabilities(vector_bytes=16)
LATE = frozenset({
    "fuse_outer_loops", "split_reductions", "schedule", "eliminate_common_subexpressions", "use_nontemporal_stores",
    "parallelize", "insert_polls", "allocate_memory",
})  # fmt: skip


def fused(proc: Proc) -> Proc:
    """Fuses every sum over rows that can be fused, whether or not it saves memory traffic."""
    return fuse_outer_loops(proc, TARGET, min_bytes_saved=0)


def divided(proc: Proc) -> Proc:
    """Splits every sum that can be split."""
    return split_reductions(proc, min_iterations=1)


def carries(proc: Proc) -> bool:
    return any("_parts" in buf.name for buf in proc.bufs)


@pytest.mark.slow
def test_random_programs_compute_the_same() -> None:
    reductions = Counter[str]()
    for seed in range(1500):
        sample = chain(Random(seed))
        optimized = optimize(lower(sample.code, "step"), sample.requested, TARGET, without=LATE)
        for transform in (fused, divided):
            proc = transform(optimized)
            if not carries(proc):
                continue
            reductions[transform.__name__] += 1
            proc = parallelize(proc, 1, 1)
            verify(proc, "optimized")
            wanted = evaluate(sample.code, sample.arrays, {}, {})
            for node, array in interpret(proc, sample.arrays, iteration_order=Random(seed)).items():
                want = wanted.get(node, sample.arrays[node])
                assert np.array_equal(array, want), f"chain {seed}\n{print_proc(proc)}{node}\n{want}\n{array}"
    assert min(reductions["fused"], reductions["divided"]) > 20


@pytest.mark.parametrize("rows", [3, 7, 12, 23])
def test_blocks_of_rows_compute_the_same(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A total, sums of columns and the largest numbers, which need no blocks."""
    for name in ("MAX_ROW_ADDITIONS", "MAX_ADDITIONS_PER_TERM", "MAX_REDUCTION_PARTS", "MIN_REDUCTION_PARTS"):
        monkeypatch.setattr(machine, name, 1)
    monkeypatch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    numbers = np.arange(5 * rows, dtype=np.float32).reshape(rows, 5) % 7 - 3
    x = oc.tensor(numbers)
    y = oc.einsum("i j; i => i j", x, oc.einsum("i j => i", x))
    results = [y, y.sum(), oc.einsum("i j => j", y), y.max("i j => j")]
    code = oc.seq(*(result.forward for result in results)).elaborate().comp
    keep_reasons = {result.node: "asked" for result in results}
    proc = optimize(lower(code, "step"), keep_reasons, TARGET, without=LATE | {"choose_layouts"})
    proc = fuse_outer_loops(proc, TARGET, min_bytes_saved=0)
    assert "_block in" in print_proc(proc) and carries(proc)
    verify(proc, "optimized")
    proc = parallelize(schedule(proc, TARGET), 1, 1)
    verify(proc, "optimized")
    arrays = {x.node: numbers}
    wanted, actual = evaluate(code, arrays, {}, {}), interpret(proc, arrays, iteration_order=Random(rows))
    for result in results:
        assert np.array_equal(actual[result.node], wanted[result.node]), print_proc(proc)


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

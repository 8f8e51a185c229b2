"""Which arrays are streams from memory, how they are read, and that the order of their sums does not depend on it."""

from __future__ import annotations

import pytest

import ocannl as oc
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.loops import Local, Prefetch, Proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize

CACHED = Cpu(l2=CacheLevel(1 << 20, 16, 16, 48), l3=CacheLevel(1 << 26, 16, 64, 16))
FAR = Cpu(
    l2=CacheLevel(1 << 20, 16, 16, 48), l3=CacheLevel(1 << 21, 16, 64, 16),
    memory_latency_cycles=300, memory_bytes_per_cycle=10,
)  # fmt: skip
LARGE_L2 = Cpu(l2=CacheLevel(1 << 26, 16, 16, 48), l3=CacheLevel(1 << 26, 16, 64, 16))


def scheduled(spec: str, rows: int, columns: int, cpu: Cpu) -> Proc:
    return compiled(oc.placeholder("x", b=[], o=[rows, columns]).sum(spec), cpu)


def compiled(y: oc.Tensor, cpu: Cpu) -> Proc:
    stages = dict[str, Proc]()
    target = Capabilities(vector_bytes=64, vector_registers=32, cpu=cpu)
    optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, target, stages.__setitem__)
    verify(stages["prefetch_streams"], "optimized")
    return stages["prefetch_streams"]


def prefetches(proc: Proc) -> list[Prefetch]:
    return [node for node in walk(proc.body) if isinstance(node, Prefetch) and node.level == 2]


def partial_sums(proc: Proc) -> tuple[int, ...]:
    """The shape of the partial sums of a row."""
    (shape,) = {node.buf.shape for node in walk(proc.body) if isinstance(node, Local) and len(node.buf.shape) > 1}
    return shape[-2:]


@pytest.mark.parametrize("columns", [1024, 8192])
def test_sums_of_rows_fetch_what_arrives_after_the_latency(columns: int) -> None:
    found = prefetches(scheduled("ij => i", 1000, columns, FAR))
    assert len(found) == 1
    assert all(3000 <= 4 * node.distance < 3000 + 4 * 128 for node in found)


@pytest.mark.parametrize(
    ("spec", "cpu"), [pytest.param("ij => i", CACHED, id="cached"), pytest.param("ij => j", FAR, id="whole rows")]
)
def test_other_arrays_are_left_to_the_processor(spec: str, cpu: Cpu) -> None:
    assert not prefetches(scheduled(spec, 1000, 4096, cpu))


@pytest.mark.parametrize("columns", [128, 2048, 5000])
def test_the_order_of_summation_does_not_depend_on_caches(columns: int) -> None:
    orders = {partial_sums(scheduled("ij => i", 4096, columns, cpu)) for cpu in (CACHED, FAR, LARGE_L2)}
    assert len(orders) == 1


def test_scatters_of_rows_fetch_the_next_rows() -> None:
    x, ids = oc.placeholder("x", b=[], o=[1000, 4096]), oc.placeholder("ids", b=[], o=[1000], dtype="int32")
    found = prefetches(compiled(oc.segment_sum(x, ids, 8), FAR))
    assert {node.ref.buf.name for node in found} == {"x"}


def test_a_single_row_of_a_large_table_is_not_prefetched() -> None:
    table, row = oc.placeholder("table", b=[], o=[100_000, 64]), oc.placeholder("row", b=[], o=[], dtype="int32")
    assert not prefetches(compiled(oc.take(table, row) * 2, FAR))

"""The measurement of the processor with compiled programs."""

import time

import pytest

from ocannl.backend.cpu.cpu_description import reported_cpu
from ocannl.backend.cpu.cpu_probe import coarse, measure_cpu
from ocannl.backend.registry import open_backend


def test_a_measured_processor_is_possible(native):
    backend = open_backend(native.name)
    lanes = max(1, backend.capabilities.vector_bytes // 4)
    start = time.thread_time()
    cpu = measure_cpu(backend.compile_valid, lanes, reported_cpu())
    assert time.thread_time() - start < 1  # 0.2 s, unless other work disturbs the caches
    assert cpu.l1.latency_cycles < cpu.l2.latency_cycles <= cpu.l3.latency_cycles <= cpu.memory_latency_cycles
    assert cpu.l1.bytes_per_cycle >= cpu.l2.bytes_per_cycle >= cpu.l3.bytes_per_cycle >= cpu.memory_bytes_per_cycle
    assert cpu.l2.size_bytes <= cpu.l3.size_bytes <= max(cpu.l2.size_bytes, reported_cpu().l3.size_bytes)
    assert cpu.l1_tlb_entries < cpu.l2_tlb_entries
    assert 1 <= cpu.fmas_per_cycle <= 4 and 500 <= cpu.wide_megahertz <= cpu.megahertz <= 8000


@pytest.mark.parametrize(("value", "expected"), [
    (0.2, 1), (1.2, 1), (5.1, 6), (5.6, 6), (7.1, 8), (13.5, 12), (690, 768), (1e9, 2048),
])  # fmt: skip
def test_rounding(value, expected):
    assert coarse(value, 1, 2048) == expected

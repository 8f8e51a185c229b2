"""The table of the processor, for `ocannl doctor`."""

from __future__ import annotations

from ocannl.ir.cpu import CacheLevel, Cpu


def cpu_rows(cpu: Cpu, reported: Cpu) -> list[list[str]]:
    """Returns rows of a name and a description. `reported` has the caches that the operating system reports."""
    nanoseconds = 1000 / cpu.megahertz
    latency = f"{cpu.memory_latency_cycles} cycles ({cpu.memory_latency_cycles * nanoseconds:.0f} ns)"
    misses = f"a miss takes {cpu.l1_tlb_miss_cycles} and {cpu.l2_tlb_miss_cycles} cycles"
    last, whole = cpu.l3.size_bytes, reported.l3.size_bytes
    share = "" if last == whole else f" of the {_size(whole)} that the system reports"
    return [
        ["L1 cache", _cache(cpu.l1, _size(cpu.l1.size_bytes))],
        ["L2 cache", _cache(cpu.l2, _size(cpu.l2.size_bytes))],
        ["last-level cache", _cache(cpu.l3, _size(last) + share)],
        ["memory", f"{latency}, {_rate(cpu.memory_bytes_per_cycle, cpu)}"],
        ["lines", f"{cpu.line_bytes} bytes; {cpu.line_crossing_cycles:g} cycles more for a vector on two lines"],
        ["TLB", f"{cpu.l1_tlb_entries} and {cpu.l2_tlb_entries} pages of {_size(cpu.page_bytes)}; {misses}"],
        ["vectors", f"{cpu.fmas_per_cycle:g} multiply-additions and {cpu.loads_per_cycle:g} loads per cycle"],
        ["clock", f"{cpu.megahertz} MHz, {cpu.wide_megahertz} MHz with the widest vectors"],
    ]


def _cache(level: CacheLevel, size: str) -> str:
    return f"{size}, {level.associativity} ways, {level.latency_cycles} cycles, {level.bytes_per_cycle} bytes/cycle"


def _size(size_bytes: int) -> str:
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}"
    return f"{size_bytes} bytes"


def _rate(bytes_per_cycle: int, cpu: Cpu) -> str:
    return f"{bytes_per_cycle} bytes/cycle ({bytes_per_cycle * cpu.megahertz / 1000:.0f} GB/s) for one core"

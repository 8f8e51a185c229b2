"""Measures the processor at hand with compiled programs (see `ocannl.backend.cpu.probe_programs`), within 0.2 s.

Other work on the machine only adds to the duration of a program: the shortest of several runs counts. Results are
limited to what processors can do, and rounded to coarse steps, so that repeated measurements agree; caches of a core
are measured several times, and the median counts, since work on the other thread of a core takes a share of them.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import log2, sqrt
from statistics import median, median_low
from typing import Any

import numpy as np

from ocannl.backend.api import Entry, Location
from ocannl.backend.cpu.device import devices, memory_bytes
from ocannl.backend.cpu.host_slab import HUGE_PAGE_BYTES, HostSlab
from ocannl.backend.cpu.native_code import NativeCode
from ocannl.backend.cpu.probe_programs import (
    CHAIN_STEP_CYCLES,
    MULTIPLY_ACCUMULATORS,
    READ_ACCUMULATORS,
    programs,
)
from ocannl.backend.cpu.queue import InlineQueue
from ocannl.ir.cpu import Cpu, cpu_from_tree
from ocannl.ir.loops import Proc

LIMIT_SECONDS = 0.2
SAMPLES = 7  # of what takes a few milliseconds; on a busy machine, single ones differ by a factor of two
MAX_ARRAY_BYTES = 1 << 26  # also the largest size of a last-level cache that is measured
MIN_CHASED = 4096  # loads of a walk
WALKS = 16
CHASED_LINES = 2048  # of a region that is larger than the private caches
CHAIN_STEPS = 4000  # about 4 us
REPETITIONS, CHAIN_REPETITIONS, FAR_REPETITIONS, LATE_REPETITIONS = 12, 64, 2, 2
LAPS = 64
MIN_READ_BYTES = 1 << 20  # of a measurement of bandwidth
LINE_WORDS = 8  # distance of the lines that are read of successive pages, so that they use all sets of the L1 cache
L1_TLB_CANDIDATES = (32, 48, 64, 96, 128, 192, 256)
L2_TLB_CANDIDATES = (512, 1024, 1536, 2048, 3072, 4096)
TLB_LOAD = 7 / 8  # of the entries are used when a number of entries is tested; code and stack need some
L1_TLB_MISSING_PAGES, L2_TLB_MISSING_PAGES = 320, 6144  # more than the first level, and all levels, can hold
MEGAHERTZ_STEP = 500


def measure_cpu(compile: Callable[[Sequence[Proc]], NativeCode], lanes: int, reported: Cpu) -> Cpu:
    """Returns the description of this processor. `reported` has the sizes of the caches; `lanes` is the number of
    float32 elements of a vector. Raises `CompileError` or `OSError` if the programs cannot run."""
    array_bytes = min(MAX_ARRAY_BYTES, memory_bytes() // 16 // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES)
    probe = _Probe(compile, max(1, lanes), array_bytes)
    samples, cycles_ns = [], []
    for _ in range(SAMPLES):
        samples.append(asdict(probe.tlb(probe.near_caches(probe.core(reported)))))
        cycles_ns.append(probe.cycle_ns)
    probe.cycle_ns = median(cycles_ns)
    return probe.far_memory(cpu_from_tree(_median(samples)))


def coarse(value: float, lowest: int, highest: int) -> int:
    """Rounds to 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on, within limits."""
    limited = min(max(value, lowest), highest)
    power = 1 << max(0, int(log2(max(1, limited))))
    return min((power, power * 3 // 2, power * 2), key=lambda step: abs(log2(max(1, step) / max(1.0, limited))))


def _median(samples: Sequence[Any]) -> Any:
    """Returns the tree of the medians of the numbers in equal places of trees."""
    first = samples[0]
    if isinstance(first, dict):
        return {name: _median([sample[name] for sample in samples]) for name in first}
    return median_low(samples)


class _Probe:
    """The compiled programs, bound to an array in huge pages (where the system has them) and to one in small pages."""

    def __init__(self, compile: Callable[[Sequence[Proc]], NativeCode], lanes: int, array_bytes: int) -> None:
        self.start = time.thread_time()
        self.lanes, self.array_bytes = lanes, array_bytes
        array, small_pages = _memory(array_bytes, "MADV_HUGEPAGE"), _memory(array_bytes, "MADV_NOHUGEPAGE")
        cells = _memory(1 << 14, "MADV_NOHUGEPAGE")
        self.at = cells.bytes[:8].view(np.int64)
        cells.bytes[:] = 0
        self.code = compile(programs(lanes, array_bytes // 4))
        self.queue = InlineQueue(devices()[0])
        far = Location(cells, 1 << 12), Location(cells, 1 << 13)
        self.links, self.page_links = array.bytes.view(np.int64), small_pages.bytes.view(np.int64)
        self.chase = self._link("chase", Location(array, 0), Location(cells, 0))
        self.chase_pages = self._link("chase", Location(small_pages, 0), Location(cells, 0))
        self.read = self._link("read", Location(array, 0), far[0])
        self.multiply, self.chain, self.both = (
            self._link(name, Location(cells, 0), *far) for name in ("multiply", "chain", "multiply_beside_chain")
        )
        array.bytes[:: mmap.PAGESIZE] = 0  # takes the pages
        small_pages.bytes[: L2_TLB_MISSING_PAGES * mmap.PAGESIZE : mmap.PAGESIZE] = 0
        self.call_ns = min(_durations(lambda: self.chain(0), 64))
        self.cycle_ns = 1.0
        self.random = np.random.default_rng(0)

    def _link(self, name: str, *locations: Location) -> Entry:
        return self.code.link(name, self.queue, locations)

    def _cycles(self, run: Callable[[], object], repetitions: int = REPETITIONS) -> float:
        """Returns the cycles of the fastest run, without the call. Fewer runs are made after the time limit."""
        is_late = time.thread_time() - self.start > LIMIT_SECONDS
        duration_ns = min(_durations(run, min(repetitions, LATE_REPETITIONS) if is_late else repetitions))
        return max(1.0, duration_ns - self.call_ns) / self.cycle_ns

    def core(self, cpu: Cpu) -> Cpu:
        """Measures clock rates, multiply-additions and loads per cycle, and loads that cross lines."""
        steps = CHAIN_STEPS
        self.multiply(steps)  # wide vectors may change the clock rate
        chain_ns = min(_durations(lambda: self.chain(steps), CHAIN_REPETITIONS)) - self.call_ns
        self.cycle_ns = max(1, chain_ns) / steps / CHAIN_STEP_CYCLES
        fmas = MULTIPLY_ACCUMULATORS * steps / self._cycles(lambda: self.multiply(steps))
        wide_cycles = self._cycles(lambda: self.both(steps)) / steps / CHAIN_STEP_CYCLES
        block_bytes = READ_ACCUMULATORS * self.lanes * 4
        blocks = cpu.l1.size_bytes // 2 // block_bytes
        aligned, shifted = (
            self._cycles(lambda shift=shift: self.read(shift, blocks, LAPS)) / LAPS / blocks  # type: ignore[misc]
            for shift in (0, 1)
        )
        crossings = block_bytes / cpu.line_bytes
        megahertz = 1000 / self.cycle_ns
        return replace(
            cpu,
            fmas_per_cycle=_halves(fmas, 1, 4),
            loads_per_cycle=_halves(READ_ACCUMULATORS / aligned, 0.5, 4),
            line_crossing_cycles=_halves((shifted - aligned) / crossings, 0.5, 8),
            megahertz=_megahertz(megahertz),
            wide_megahertz=_megahertz(megahertz / min(max(wide_cycles, 1), 4)),
        )

    def near_caches(self, cpu: Cpu) -> Cpu:
        """Measures the latency and the bandwidth of the caches of a core."""
        l1, l2 = cpu.l1, cpu.l2
        l1_latency = coarse(self._latency(l1.size_bytes // 2, cpu.line_bytes), 3, 8)
        l2_latency = coarse(self._latency(max(2 * l1.size_bytes, l2.size_bytes // 4), cpu.line_bytes), 8, 48)
        return replace(
            cpu,
            l1=replace(
                l1, latency_cycles=l1_latency, bytes_per_cycle=coarse(self._bandwidth(l1.size_bytes // 2), 8, 256)
            ),
            l2=replace(
                l2, latency_cycles=l2_latency, bytes_per_cycle=coarse(self._bandwidth(l2.size_bytes // 2), 4, 128)
            ),
        )

    def tlb(self, cpu: Cpu) -> Cpu:
        """Measures the numbers of pages that the first and the last level of the TLB hold, and the costs of misses."""
        missing = self._page_latency(L1_TLB_MISSING_PAGES)
        hit = self._page_latency(min(L1_TLB_CANDIDATES) // 2)
        l1_miss = max(1.0, missing - hit)
        walk = max(1.0, self._page_latency(L2_TLB_MISSING_PAGES) - missing)
        l1_entries = self._entries(L1_TLB_CANDIDATES, hit + l1_miss / 2)
        l2_entries = self._entries(L2_TLB_CANDIDATES, missing + walk / 2)
        return replace(
            cpu,
            page_bytes=mmap.PAGESIZE,
            l1_tlb_entries=l1_entries,
            l2_tlb_entries=l2_entries,
            l1_tlb_miss_cycles=coarse(l1_miss, 2, 48),
            l2_tlb_miss_cycles=coarse(walk, 8, 384),
        )

    def far_memory(self, cpu: Cpu) -> Cpu:
        """Measures which size of array stays in the last-level cache, and latencies and bandwidths beyond the L2 cache.

        The cache ends where latencies come closer to that of memory. Arrays of up to `MAX_ARRAY_BYTES` are tried.
        """
        sizes = [2 * cpu.l2.size_bytes]
        while 2 * sizes[-1] <= self.array_bytes:
            sizes.append(2 * sizes[-1])
        latencies = [self._far_latency(size, cpu.line_bytes) for size in sizes]
        near, far = min(latencies[:2]), latencies[-1]
        cached = [size for size, latency in zip(sizes, latencies, strict=True) if latency < sqrt(near * far)]
        memory = replace(
            cpu,
            memory_latency_cycles=coarse(far, 4 * cpu.l2.latency_cycles, 4096),
            memory_bytes_per_cycle=coarse(self._bandwidth(self.array_bytes), 1, cpu.l2.bytes_per_cycle),
        )
        if cpu.l3.size_bytes <= cpu.l2.size_bytes or not cached:
            return replace(memory, l3=cpu.l2)
        is_cached_wholly = far < 2 * near
        l3 = replace(
            cpu.l3,
            size_bytes=cpu.l3.size_bytes if is_cached_wholly else min(cached[-1], cpu.l3.size_bytes),
            latency_cycles=coarse(near, cpu.l2.latency_cycles, 512),
            bytes_per_cycle=coarse(
                self._bandwidth(cached[-1] // 2), memory.memory_bytes_per_cycle, cpu.l2.bytes_per_cycle
            ),
        )
        return replace(memory, l3=l3)

    def _latency(self, size_bytes: int, line_bytes: int) -> float:
        """Returns the cycles per load of a walk through all lines of so many bytes, in random order."""
        lines = size_bytes // line_bytes
        self._make_cycle(self.links, self.random.permutation(lines) * (line_bytes // 8))
        steps = max(lines, MIN_CHASED)
        return self._cycles(lambda: self.chase(steps)) / steps

    def _far_latency(self, size_bytes: int, line_bytes: int) -> float:
        """Returns the cycles per load of a walk through lines of an array that has just been read, in random order."""
        lines = self.random.choice(size_bytes // line_bytes, CHASED_LINES, replace=False)
        self._make_cycle(self.links, lines * (line_bytes // 8))
        cycles = []
        for _ in range(FAR_REPETITIONS):
            self._read_array(size_bytes, 1)
            walks = _durations(lambda: self.chase(CHASED_LINES // WALKS), WALKS)
            cycles.append((median(walks) - self.call_ns) / self.cycle_ns)  # in spite of interruptions
        return max(1.0, min(cycles)) * WALKS / CHASED_LINES

    def _page_latency(self, pages: int) -> float:
        """Returns the cycles per load of a walk through a line of each of so many small pages, or of those that the
        array has, in random order."""
        words, pages = mmap.PAGESIZE // 8, min(pages, self.array_bytes // mmap.PAGESIZE)
        order = self.random.permutation(pages)
        self._make_cycle(self.page_links, order * words + order * LINE_WORDS % words)
        steps = max(2 * pages, MIN_CHASED)
        return self._cycles(lambda: self.chase_pages(steps), 4) / steps

    def _make_cycle(self, links: np.ndarray[Any, np.dtype[np.int64]], cells: np.ndarray[Any, Any]) -> None:
        """Links the cells of the array in this order, and the last one to the first."""
        links[cells] = np.roll(cells, -1)
        self.at[0] = cells[0]

    def _entries(self, candidates: Sequence[int], limit: float) -> int:
        """Returns the largest number of TLB entries that are used with an average latency below the limit."""
        entries = min(candidates)
        for candidate in candidates:
            if self._page_latency(int(candidate * TLB_LOAD)) > limit:
                break
            entries = candidate
        return entries

    def _bandwidth(self, size_bytes: int) -> float:
        """Returns the bytes per cycle when an array of this size is read repeatedly."""
        laps = max(1, MIN_READ_BYTES // size_bytes)
        return size_bytes * laps / self._cycles(lambda: self._read_array(size_bytes, laps), 4)

    def _read_array(self, size_bytes: int, laps: int) -> None:
        self.read(0, size_bytes // (READ_ACCUMULATORS * self.lanes * 4), laps)


def _memory(size_bytes: int, advice: str) -> HostSlab:
    """Returns memory that begins at a multiple of a huge page; pages that are not used cost nothing."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    pages = mmap.mmap(-1, size_bytes + HUGE_PAGE_BYTES, **private)
    if hasattr(mmap, advice):
        pages.madvise(getattr(mmap, advice))
    raw = np.frombuffer(pages, np.uint8)
    start = -raw.ctypes.data % HUGE_PAGE_BYTES
    return HostSlab(raw[start : start + size_bytes], raw.ctypes.data + start)


def _durations(run: Callable[[], object], repetitions: int) -> list[int]:
    durations = []
    for _ in range(repetitions):
        start = time.perf_counter_ns()
        run()
        durations.append(time.perf_counter_ns() - start)
    return durations


def _halves(value: float, lowest: float, highest: float) -> float:
    return round(2 * min(max(value, lowest), highest)) / 2


def _megahertz(value: float) -> int:
    return max(1, round(min(max(value, 500), 8000) / MEGAHERTZ_STEP)) * MEGAHERTZ_STEP

"""Estimated cycles that the accesses of a register tile wait for caches and TLBs, beyond reads from the first level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, prod

from ocannl.ir.affine import Sym
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.loops import Ref
from ocannl.opt import machine_model as machine
from ocannl.opt.schedule.plan.register_tiles import TilePlan


@dataclass(frozen=True, slots=True)
class Runs:
    """The contiguous runs of bytes that an access touches in a range of iterations."""

    count: int
    nbytes: int
    distances: tuple[int, ...]  # bytes between runs, along each loop

    @staticmethod
    def of(ref: Ref, extents: Mapping[Sym, int]) -> Runs:
        nbytes = ref.buf.precision.nbytes
        axes = sorted((abs(ref.stride(sym)) * nbytes, extent) for sym, extent in extents.items() if extent > 1)
        distances: list[int] = []
        run, count = nbytes, 1
        for distance, extent in axes:
            if not distance:
                continue
            if distance <= run and not distances:
                run += distance * (extent - 1)
            else:
                count *= extent
                distances.append(distance)
        return Runs(count, run, tuple(distances))

    def lines(self, line_bytes: int) -> int:
        return self.count * -(-self.nbytes // line_bytes)

    def pages(self, page_bytes: int) -> int:
        """Returns about the number of pages."""
        if not self.distances:
            return -(-self.nbytes // page_bytes)
        if self.distances[0] >= page_bytes:
            return self.count * -(-self.nbytes // page_bytes)
        return max(1, self.count * self.distances[0] // page_bytes)

    def occupied_bytes(self, cache: CacheLevel) -> int:
        """Returns the size of the cache that the runs occupy, counting sets that they leave unused because of their
        distances."""
        period = cache.size_bytes // cache.associativity
        return self.count * max(gcd(period, *self.distances), self.nbytes)


def tile_extents(plan: TilePlan) -> dict[Sym, int]:
    """Returns the iterations of each loop in a tile, and in a block of its reduction."""
    extents = {**plan.tile_sizes, **{sym: sym.extent for sym in plan.reduction_syms}}
    if plan.k_block:
        extents[plan.reduction_syms[0]] = plan.k_block
    return extents


def tile_runs(ref: Ref, plan: TilePlan) -> Runs:
    return Runs.of(ref, tile_extents(plan))


def line_cycles(ref: Ref, plan: TilePlan, cpu: Cpu) -> float:
    """Returns the cycles that a tile waits for the lines of an operand which the private cache holds, if they are far
    apart: misses of the TLBs, and lines that have been evicted because they share few sets."""
    runs = tile_runs(ref, plan)
    cycles, pages = 0.0, runs.pages(cpu.page_bytes)
    if pages > cpu.l1_tlb_entries:
        cycles += pages * cpu.l1_tlb_miss_cycles
    if pages > cpu.l2_tlb_entries // 2:
        cycles += pages * cpu.l2_tlb_miss_cycles
    cycles += _evicted_share(runs, cpu.l2) * runs.lines(cpu.line_bytes) * cpu.l3.latency_cycles
    return cycles / machine.OVERLAPPED_MISSES


def _evicted_share(runs: Runs, cache: CacheLevel) -> float:
    """Returns the share of lines that are evicted before they are read again. Physical pages have random addresses:
    some sets overflow when half of the cache is occupied, and half of the sets when all of it is."""
    occupied = runs.occupied_bytes(cache) / cache.size_bytes
    return min(1.0, max(0.0, occupied - 0.5))


def copy_cycles(ref: Ref, plan: TilePlan, cpu: Cpu) -> float:
    """Returns the cycles to copy the part of an operand that a tile reads to a panel."""
    sizes = {**plan.tile_sizes, **{sym: sym.extent for sym in plan.reduction_syms}}
    cells = prod(size for sym, size in sizes.items() if ref.stride(sym))
    return cells * machine.COPY_ELEMENT_CYCLES + line_cycles(ref, plan, cpu)

"""Streamed rows: plans of reductions across the rows of arrays that come from memory.

A tile that runs down all rows of an array, such as for the sums of its columns, reads a few lines of each. Hardware
prefetchers do not recognize them as streams. Blocks of few rows read whole rows instead; partial results stay cached.
"""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Ref
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.cost_model import tiles_of_same_class
from ocannl.opt.schedule.plan.nest_shape import Tile
from ocannl.opt.schedule.plan.register_tiles import (
    TilePlan,
    bounds_guards,
    plan_with_tile,
    reads_rows_once,
    tiling_problem,
)


def with_streamed_rows(
    group: FusionGroup, plan: TilePlan, capabilities: Capabilities, is_parallel: bool = False
) -> TilePlan | None:
    """Returns a plan with tiles along single rows, in blocks of a few rows unless a tile covers its row. The order of
    summation is that of `plan`.

    Returns None if the reduction does not run across rows from memory, if its latency takes longer than memory, or if
    threads could not share the loops around blocks.
    """
    cpu = capabilities.cpu
    rows = _rows_from_memory(group, plan, cpu)
    problem = tiling_problem(group, capabilities) if rows else None
    if problem is None:
        return None
    single_row = Tile(0, group.syms.index(plan.vector), 1, ())
    tiles_of_rows = tiles_of_same_class(problem.nest_shape(), single_row)
    tile = min(tiles_of_rows, key=lambda tile: tile.cycles, default=None)
    if tile is None:
        return None
    streamed = _widen_to_rows(group, plan_with_tile(group, problem, tile), rows, capabilities)
    tiles, *outer = [streamed.trip_counts[sym] for sym, _ in reversed(streamed.loops)]
    if tiles == 1:
        row_bytes = min(plan.vector.extent * ref.buf.precision.nbytes for ref in rows)
        return streamed if row_bytes >= machine.ADD_LATENCY_CYCLES * cpu.l3.bytes_per_cycle else None
    sums_bytes = streamed.tile_sizes[plan.vector] * group.reductions[0].acc.precision.nbytes  # of a tile
    strip = min(tiles, max(1, cpu.l2.size_bytes // machine.BLOCK_CACHE_DIVISOR // sums_bytes))
    if is_parallel and (not outer or outer[-1] < machine.MIN_OUTER_TRIPS):
        strip = min(strip, tiles // machine.MIN_OUTER_TRIPS)
        if strip * sums_bytes < cpu.page_bytes:
            return None
    rows_per_block = 1 if _share_pages(rows, plan, cpu) else max(1, machine.STREAMED_ROWS // len(rows))
    return replace(streamed, k_block=rows_per_block, strip=(plan.vector, strip) if strip < tiles else None)


def _rows_from_memory(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> list[Ref]:
    """Returns the operands that are larger than the private cache, if the reduction runs across rows of all of them,
    and each is read once."""
    if not group.reductions or len(plan.reduction_syms) != 1 or plan.vector not in plan.tile_sizes:
        return []
    (reduction,), (k,) = group.reductions, plan.reduction_syms
    if not (group.cond.is_true and reduction.cond.is_true) or bounds_guards(reduction.update.value):
        return []
    large = [ref for ref in dict.fromkeys(loads(reduction.update.value)) if ref.buf.nbytes > cpu.l2.size_bytes]
    syms = [sym for sym in (*group.syms, k) if sym.extent > 1]
    return large if all(reads_rows_once(ref, plan, k, syms) for ref in large) else []


def _share_pages(rows: list[Ref], plan: TilePlan, cpu: Cpu) -> bool:
    """Whether a page holds several rows, of which prefetchers follow only one at a time."""
    (k,) = plan.reduction_syms
    return any(abs(ref.stride(k)) * ref.buf.precision.nbytes < cpu.page_bytes for ref in rows)


def _widen_to_rows(group: FusionGroup, plan: TilePlan, rows: list[Ref], capabilities: Capabilities) -> TilePlan:
    """Returns the plan with tiles as wide as rows that share pages, if their accumulators fit the registers."""
    vectors = -(-plan.vector.extent // plan.lanes)
    operands = [ref for ref in dict.fromkeys(loads(group.reductions[0].update.value)) if ref.stride(plan.vector)]
    registers = vectors * (1 + len(operands) - len(rows)) + 1 + len(rows)
    if registers > capabilities.vector_registers or not _share_pages(rows, plan, capabilities.cpu):
        return plan
    return replace(plan, loops=(*plan.loops[:-1], (plan.vector, vectors * plan.lanes)), vectors=vectors)

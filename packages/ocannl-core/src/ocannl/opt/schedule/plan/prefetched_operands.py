"""Software prefetching (compare Mowry et al. 1992) of operands that come from memory, a tile ahead, because their lines
are too far apart for processors to predict; and of panels that come from the private cache, a few terms ahead."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import AccessMode, Ref
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.access_cost import tile_extents, tile_runs
from ocannl.opt.schedule.plan.packing import packable_operands
from ocannl.opt.schedule.plan.register_tiles import TilePlan


def with_prefetched_operands(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Returns the plan with prefetches of the operands that are larger than the private cache, and that tiles read in
    rows which are not adjacent in memory.

    Temporaries are not prefetched: another nest has just written them. Neither are rows whose distances are multiples
    of large powers of two: they would evict each other before they are read.
    """
    operands = [
        ref for ref in packable_operands(group, plan)
        if ref.buf.access in (AccessMode.IN, AccessMode.CONST) and ref.buf.nbytes > cpu.l2.size_bytes
        and ref not in (*plan.panels, *plan.packed_operands) and _is_read_in_short_rows(ref, plan)
        and tile_runs(ref, plan).occupied_bytes(cpu.l2) <= machine.MAX_PREFETCHED_TILE_L2_RATIO * cpu.l2.size_bytes
    ]  # fmt: skip
    distances = [(ref, _distance_of_next_tile(ref, plan)) for ref in operands]
    return replace(plan, prefetched=tuple([item for item in distances if item[1]]))


def _is_read_in_short_rows(ref: Ref, plan: TilePlan) -> bool:
    """Whether each term of the reduction reads a row of vectors that does not continue the previous one."""
    row = plan.tile_sizes[plan.vector]
    return ref.stride(plan.vector) == 1 and all(abs(ref.stride(sym)) > row for sym in plan.reduction_syms)


def _distance_of_next_tile(ref: Ref, plan: TilePlan) -> int:
    """Returns the distance, in elements, to the operand of the next tile that does not read the same one."""
    trip_counts = plan.trip_counts
    for sym, size in reversed(plan.loops):
        if trip_counts[sym] > 1 and ref.stride(sym):
            return max(1, size) * ref.stride(sym)
    return 0


def with_prefetched_panels(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Returns the plan with prefetches of the panels that do not stay in the first-level cache from one tile to the
    next, if a term of the reduction has fewer loads than the processor can start during its arithmetic."""
    if not plan.panels:
        return plan
    sizes, lanes = plan.tile_sizes, plan.lanes
    (reduction,) = group.reductions
    term_cycles = prod(sizes.values()) / lanes / cpu.fmas_per_cycle
    term_loads = sum(_vectors(ref, plan) for ref in dict.fromkeys(loads(reduction.update.value)))
    panels = []
    for ref in plan.panels:
        line_elements = machine.LINE_BYTES // ref.buf.precision.nbytes
        lines = -(-sizes[plan.vector] // line_elements)
        is_hidden = (term_loads + lines) / cpu.loads_per_cycle < term_cycles
        if ref.stride(plan.vector) and is_hidden and not _stays_in_l1(ref, plan, cpu):
            panels.append(ref)
    return replace(plan, prefetched_panels=tuple(panels))


def _vectors(ref: Ref, plan: TilePlan) -> int:
    """Returns the number of vectors, or of broadcast elements, that a term of the reduction loads."""
    cells = prod(size for sym, size in plan.tile_sizes.items() if ref.stride(sym))
    return cells // plan.lanes if ref.stride(plan.vector) else cells


def _stays_in_l1(ref: Ref, plan: TilePlan, cpu: Cpu) -> bool:
    """Whether the tiles of the innermost loop read the same part of the panel, and this part takes at most half of the
    first-level cache."""
    inner, size = plan.loops[-1]
    cells = prod(extent for sym, extent in tile_extents(plan).items() if ref.stride(sym))
    is_shared = not ref.stride(inner) and inner.extent > max(1, size)
    return is_shared and cells * ref.buf.precision.nbytes <= cpu.l1.size_bytes // 2

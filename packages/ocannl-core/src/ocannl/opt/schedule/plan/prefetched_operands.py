"""Software prefetching of operands that come from memory, a tile ahead: their lines are too far apart for processors to
predict (compare Mowry et al. 1992)."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import AccessMode, Ref
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan.access_cost import tile_runs
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

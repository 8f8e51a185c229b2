"""Loop order of plans that transpose register tiles."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import Sym
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Ref
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan.register_tiles import TilePlan


def order_transpose(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Returns the plan with its loops in an order that reads or writes memory in sequence."""
    bufs = {ref.buf for ref in (*group.reads, *group.writes)}
    is_large = (
        sum(buf.nbytes for buf in bufs) > cpu.streaming_threshold_bytes
        and group.writes[0].buf.nbytes > machine.MIN_NONTEMPORAL_BYTES
    )
    if is_large and group.cond.is_true:
        return _order_large_transpose(group, plan, cpu)
    return _order_cached_transpose(group, plan)


def _order_cached_transpose(group: FusionGroup, plan: TilePlan) -> TilePlan:
    """Moves the loop along which the plan writes contiguous lines to the innermost position, so that each row of tiles
    continues the lines of the one before and few lines are open at a time."""
    trip_counts, sizes = plan.trip_counts, dict(plan.loops)
    loops = [sym for sym, count in trip_counts.items() if count > 1]
    if not group.cond.is_true or len(loops) < 2:
        return plan
    (write, *_) = group.writes
    inner = min(loops, key=lambda sym: abs(write.stride(sym)) * max(1, sizes[sym]))
    outermost = loops[inner is loops[0]]
    min_trip_count = min(machine.MIN_OUTER_TRIPS, trip_counts[loops[0]])  # threads may share the outermost loop
    if inner is loops[-1] or trip_counts[outermost] < min_trip_count:
        return plan
    return replace(plan, loops=(*(loop for loop in plan.loops if loop[0] is not inner), (inner, sizes[inner])))


def _order_large_transpose(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Walks in the order of the cells that the plan reads, which processors prefetch, or of those that it writes if the
    other side changes its pages less often then.

    Tiles of whole lines, which bypass the caches, follow this order in all loops. Otherwise only the loops over tiles
    do, in strips of as many lines as are cached until the next row of tiles completes them.
    """
    plan, writes_lines = _widen_to_cache_lines(group, plan, cpu)
    (write, *_), sizes, trip_counts = group.writes, dict(plan.loops), plan.trip_counts
    refs = dict.fromkeys((*group.reads, write))
    reordered = [sym for sym, size in plan.loops if size or writes_lines]
    outer = [sym for sym, _ in plan.loops if sym not in reordered]

    def in_order_of(ref: Ref) -> list[Sym]:
        return [*outer, *sorted(reordered, key=lambda sym: -abs(ref.stride(sym)) * max(1, sizes[sym]))]

    def innermost(order: list[Sym]) -> Sym:
        return next((sym for sym in reversed(order) if trip_counts[sym] > 1), order[-1])

    def new_pages(order: list[Sym]) -> float:
        """Returns the pages that a row of the next tile begins."""
        inner = innermost(order)
        return sum(min(1, abs(ref.stride(inner)) * ref.buf.precision.nbytes / cpu.page_bytes) for ref in refs)

    order = min(map(in_order_of, refs), key=new_pages)
    inner = innermost(order)
    strip = max(1, cpu.l1.size_bytes // cpu.line_bytes // max(1, sizes[inner]))
    is_short = trip_counts[order[0]] < min(machine.MIN_OUTER_TRIPS, trip_counts[plan.loops[0][0]])  # for threads
    is_open = not writes_lines and abs(write.stride(inner)) > 1
    has_strips = (is_open or is_short) and inner is not order[0] and strip < trip_counts[inner]
    return replace(
        plan, loops=tuple([(sym, sizes[sym]) for sym in order]), strip=(inner, strip) if has_strips else None
    )


def _widen_to_cache_lines(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> tuple[TilePlan, bool]:
    """Returns the plan with tiles of whole lines of its result if these may bypass the caches, and whether they may:
    lines are aligned, and few are incomplete at a time."""
    (write, *_), nbytes = group.writes, group.writes[0].buf.precision.nbytes
    vectors = max(1, cpu.line_bytes // (plan.lanes * nbytes))
    rows = plan.tile_sizes[plan.transposed_loop] if plan.transposed_loop and vectors > 1 else 1
    is_aligned = not any(write.stride(sym) * nbytes % cpu.line_bytes for sym in group.syms if sym is not plan.vector)
    fits = write.stride(plan.vector) == 1 and plan.vector.extent >= vectors * plan.lanes
    is_read = any(ref.buf is write.buf for ref in group.reads)
    if not is_aligned or not fits or is_read or rows > machine.MAX_INCOMPLETE_LINES:
        return plan, False
    if plan.vectors % vectors == 0:
        return plan, True
    loops = tuple([(sym, vectors * plan.lanes if sym is plan.vector else size) for sym, size in plan.loops])
    return replace(plan, loops=loops, vectors=vectors), True

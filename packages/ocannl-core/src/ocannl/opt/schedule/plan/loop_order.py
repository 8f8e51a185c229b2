"""Loop interchange and strip-mining of tile loops, by estimated traffic from the shared cache and from memory
(compare Wolf and Lam 1991)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from ocannl.ir.affine import Sym
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Update
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.packing import add_cache_blocking, add_packing_and_blocking
from ocannl.opt.schedule.plan.register_tiles import TilePlan

LoopOrder = tuple[tuple[Sym, int], ...]
"""Loops, outermost first, with their trip counts; a strip-mined loop occurs twice, its strips first."""


def can_reorder(group: FusionGroup, plan: TilePlan) -> bool:
    """Whether the loops of the plan can be permuted."""
    return bool(group.reductions and plan.tile_sizes and group.cond.is_true)


def order_loops(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Returns the plan with the best loop order, and with packing and blocking chosen for this order."""
    return add_packing_and_blocking(group, _best_order(group, plan, cpu), cpu)


def _best_order(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Returns the plan with the loop order and strip of least memory traffic, if the savings are significant."""
    if plan.transposed_loop is not None and not group.reductions:
        return _order_transpose(group, plan)
    trip_counts = plan.trip_counts
    if not can_reorder(group, plan) or not 2 <= len(trip_counts) <= machine.MAX_PERMUTED_LOOPS:
        return plan
    cycles = prod(s.extent for s in (*group.syms, *plan.reduction_syms)) / plan.lanes / 2
    default_cost = _memory_traffic(group, plan, tuple(trip_counts.items()), cpu)
    if default_cost < machine.MIN_LOOP_ORDER_SAVING * cycles:
        return plan
    best_cost, best = default_cost, plan
    for candidate, order in _candidate_orders(plan):
        cost = _memory_traffic(group, candidate, order, cpu)
        if cost < best_cost:
            best_cost, best = cost, candidate
    is_significant = default_cost - best_cost > machine.MIN_LOOP_ORDER_SAVING * cycles
    return best if is_significant and best_cost < machine.MAX_LOOP_ORDER_COST_RATIO * default_cost else plan


def _order_transpose(group: FusionGroup, plan: TilePlan) -> TilePlan:
    """Moves the loop along which a transposing plan writes contiguous lines to the innermost position, so that each
    row of tiles continues the lines of the one before and few lines are open at a time."""
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


@dataclass(frozen=True, slots=True)
class _Operand:
    syms: frozenset[Sym]  # loops that it depends on
    tile_bytes: int  # accessed by one tile
    total_bytes: int

    def footprint(self, order: LoopOrder) -> int:
        """Returns the bytes accessed by these loops."""
        return min(self.total_bytes, self.tile_bytes * prod(count for sym, count in order if sym in self.syms))


def _operands(group: FusionGroup, plan: TilePlan) -> list[_Operand]:
    """Returns the operands of the reduction, and its partial sums if blocking stores them in memory."""
    (reduction,) = group.reductions
    sizes = {**{sym: sym.extent for sym in plan.reduction_syms}, **dict.fromkeys(plan.outer_syms, 1), **plan.tile_sizes}
    if plan.k_block:
        sizes[plan.reduction_syms[0]] = plan.k_block
    operands = []
    for ref in dict.fromkeys([*loads(reduction.update.value), *(group.writes[:1] if plan.k_block else ())]):
        syms = frozenset(sym for sym in ref.syms if sym in sizes)
        tile_bytes = prod(sizes[sym] for sym in syms) * ref.buf.precision.nbytes
        operands.append(_Operand(syms, tile_bytes, ref.buf.nbytes))
    return operands


def _memory_traffic(group: FusionGroup, plan: TilePlan, order: LoopOrder, cpu: Cpu) -> float:
    """Estimates the cycles for traffic from the shared cache and from memory, after `add_cache_blocking`."""
    plan = add_cache_blocking(group, plan, cpu)
    operands = _operands(group, plan)
    if plan.k_block:
        k, n = plan.reduction_syms[0], len(order) - plan.blocked_loops
        order = (*order[:n], (k, -(-k.extent // plan.k_block)), *order[n:])
    operand_cache_bytes = cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR
    llc_bytes = _cache_fill_bytes(operands, order, operand_cache_bytes)
    dram_bytes = _cache_fill_bytes(operands, order, cpu.streaming_threshold_bytes)
    cost = machine.LLC_LINE_CYCLES * llc_bytes + machine.DRAM_LINE_CYCLES * dram_bytes
    return (cost + machine.SHORT_RUN_CYCLES * _short_run_bytes(group, order, cpu)) / machine.LINE_BYTES


def _short_run_bytes(group: FusionGroup, order: LoopOrder, cpu: Cpu) -> int:
    """Returns the bytes of large epilogue operands that come from memory in runs no longer than a tile row, because the
    innermost loop does not continue them."""
    (reduction,) = group.reductions
    reduction_bufs = {ref.buf for ref in loads(reduction.update.value)}
    updated = [stmt.ref for stmt in group.epilogue if isinstance(stmt, Update)]
    large_refs = {
        ref.buf: ref for ref in (*group.reads, *updated)
        if ref.buf not in reduction_bufs and ref.buf.nbytes > cpu.l2.size_bytes
    }  # fmt: skip
    if sum(buf.nbytes for buf in (*reduction_bufs, *large_refs)) <= cpu.streaming_threshold_bytes:
        return 0
    inner = next((sym for sym, count in reversed(order) if count > 1), None)
    return sum(buf.nbytes for buf, ref in large_refs.items() if inner is not None and abs(ref.stride(inner)) > 1)


def _cache_fill_bytes(operands: Sequence[_Operand], order: LoopOrder, cache_bytes: int) -> float:
    """Returns the bytes that enter a cache of this size. An operand is reused across a loop that it does not depend on
    if the footprint of the loop's body fits."""
    if sum(operand.footprint(order) for operand in operands) <= cache_bytes:
        return 0
    filled = [operand.tile_bytes for operand in operands]
    for depth in range(len(order) - 1, -1, -1):
        sym, count = order[depth]
        fits = sum(operand.footprint(order[depth + 1 :]) for operand in operands) <= cache_bytes
        filled = [
            nbytes if fits and sym not in operand.syms else nbytes * count
            for nbytes, operand in zip(filled, operands, strict=True)
        ]
    return sum(filled)


def _candidate_orders(plan: TilePlan) -> Iterator[tuple[TilePlan, LoopOrder]]:
    """Yields plans with permuted and strip-mined loops whose outermost loop is long enough to be parallelized."""
    trip_counts = plan.trip_counts
    min_trip_count = min(machine.MIN_OUTER_TRIPS, next(iter(trip_counts.values())))
    for loops in permutations(plan.loops):
        if not loops[-1][1]:
            continue
        order = tuple([(sym, trip_counts[sym]) for sym, _ in loops])
        candidate = replace(plan, loops=loops)
        if order[0][1] >= min_trip_count:
            yield candidate, order
        for strip_sym, _ in loops[1:]:
            for size in machine.STRIP_SIZES:
                strips = -(-trip_counts[strip_sym] // size)
                if min_trip_count <= strips and 1 < strips < trip_counts[strip_sym]:
                    inner = tuple([(sym, size if sym is strip_sym else count) for sym, count in order])
                    yield replace(candidate, strip=(strip_sym, size)), ((strip_sym, strips), *inner)

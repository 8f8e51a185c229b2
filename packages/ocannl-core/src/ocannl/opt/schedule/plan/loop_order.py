"""Loop interchange, strip-mining and cache blocks of tile loops, by the estimated cycles that they wait for caches and
memory (compare Wolf and Lam 1991)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from ocannl.ir.affine import Sym
from ocannl.ir.cpu import Cpu
from ocannl.ir.loops import Ref, Update
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.access_cost import Runs, copy_cycles, line_cycles, tile_runs
from ocannl.opt.schedule.plan.packing import can_block, packable_operands, panel_loops, with_cache_blocks
from ocannl.opt.schedule.plan.register_tiles import TilePlan, load_imbalance
from ocannl.opt.schedule.plan.transpose_order import order_transpose

LoopOrder = tuple[tuple[Sym, int], ...]
"""Loops, outermost first, with their trip counts; a strip-mined loop occurs twice, its strips first."""


def can_reorder(group: FusionGroup, plan: TilePlan) -> bool:
    """Whether the loops of the plan can be permuted."""
    return bool(group.reductions and plan.tile_sizes and group.cond.is_true)


def order_loops(group: FusionGroup, plan: TilePlan, cpu: Cpu, is_parallel: bool = False) -> TilePlan:
    """Returns the plan with the loop order, strip, cache blocks and panels that wait least for memory, if the savings
    are significant. With `is_parallel`, threads that have no part of a short outermost loop wait as well."""
    if plan.transposed_loop is not None and not group.reductions:
        return order_transpose(group, plan, cpu)
    if not group.reductions:
        return _order_map(group, plan)
    packable = frozenset(packable_operands(group, plan))
    default = _with_default_blocks(group, plan, cpu, packable)
    trip_counts = plan.trip_counts
    if not can_reorder(group, plan) or not 2 <= len(trip_counts) <= machine.MAX_PERMUTED_LOOPS:
        return default
    terms = prod(s.extent for s in (*group.syms, *plan.reduction_syms))
    cycles = terms / plan.lanes / 2
    is_shared = is_parallel and 2 * terms >= machine.MIN_PARALLEL_OPS
    thread_cycles = terms / plan.lanes / cpu.fmas_per_cycle * machine.SHARED_ORDER_WEIGHT

    def cost(candidate: TilePlan) -> float:
        has_few_parts = is_shared and _loop_levels(candidate)[0][0][1] < machine.MIN_OUTER_TRIPS
        return _waiting_cycles(group, candidate, cpu) + has_few_parts * load_imbalance(candidate) * thread_cycles

    default_cost = cost(default)
    if default_cost < machine.MIN_LOOP_ORDER_SAVING * cycles:
        return default
    candidates = _candidates(group, plan, cpu, packable)
    costs = ((cost(candidate), candidate) for candidate in candidates)
    best_cost, best = min(costs, key=lambda item: item[0], default=(default_cost, default))
    is_significant = default_cost - best_cost > machine.MIN_LOOP_ORDER_SAVING * cycles
    return best if is_significant and best_cost < machine.MAX_LOOP_ORDER_COST_RATIO * default_cost else default


def with_default_blocks(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> TilePlan:
    """Returns the plan with cache blocks inside its outermost loop, of which threads take iterations."""
    return _with_default_blocks(group, plan, cpu, frozenset(packable_operands(group, plan)))


def _with_default_blocks(group: FusionGroup, plan: TilePlan, cpu: Cpu, packable: frozenset[Ref]) -> TilePlan:
    blocked = _blocked(group, plan, cpu, packable)
    return min(blocked, key=lambda candidate: _waiting_cycles(group, candidate, cpu))


def _blocked(group: FusionGroup, plan: TilePlan, cpu: Cpu, packable: frozenset[Ref]) -> Iterator[TilePlan]:
    """Yields the plan with cache blocks around each number of inner loops."""
    loops = len(plan.loops) - (plan.strip is None)
    if not can_block(group, plan) or not loops:
        yield plan
        return
    for blocked_loops in range(loops, 0, -1):
        yield with_cache_blocks(group, plan, cpu, blocked_loops, packable)


def _order_map(group: FusionGroup, plan: TilePlan) -> TilePlan:
    """Moves outer loops that step within the lines of a strided vector into the loop over vectors, so that these lines
    are read and written once."""
    (write, *_) = group.writes
    distance = abs(write.stride(plan.vector))
    inner = [loop for loop in plan.loops if not loop[1] and 0 < abs(write.stride(loop[0])) < distance]
    if not inner or not group.cond.is_true:
        return plan
    loops = (*(loop for loop in plan.loops if loop not in inner), *inner)
    trip_counts = plan.trip_counts
    outermost, new_outermost = (trip_counts[order[0][0]] for order in (plan.loops, loops))
    return replace(plan, loops=loops) if new_outermost >= min(machine.MIN_OUTER_TRIPS, outermost) else plan


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


def _waiting_cycles(group: FusionGroup, plan: TilePlan, cpu: Cpu) -> float:
    """Estimates the cycles of a plan that are not arithmetic: traffic from the shared cache and from memory, scattered
    lines, and copies."""
    if not group.reductions:
        return 0.0
    outside, inside = _loop_levels(plan)
    order = (*outside, *inside)
    operands = _operands(group, plan)
    operand_cache_bytes = cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR
    llc_bytes = _cache_fill_bytes(operands, order, operand_cache_bytes)
    dram_bytes = _cache_fill_bytes(operands, order, cpu.streaming_threshold_bytes)
    cost = machine.LLC_LINE_CYCLES * llc_bytes + machine.DRAM_LINE_CYCLES * dram_bytes
    cost += machine.SHORT_RUN_CYCLES * _short_run_bytes(group, plan, order, cpu)
    return cost / cpu.line_bytes + sum(
        _access_cycles(ref, plan, order, cpu) for ref in dict.fromkeys(loads(group.reductions[0].update.value))
    )


def _loop_levels(plan: TilePlan) -> tuple[LoopOrder, LoopOrder]:
    """Returns the loops outside of cache blocks and inside, with their trip counts."""
    trip_counts = plan.trip_counts
    strips: LoopOrder = ()
    if plan.strip is not None:
        sym, size = plan.strip
        strips, trip_counts[sym] = ((sym, -(-trip_counts[sym] // size)),), size
    loops = tuple([(sym, trip_counts[sym]) for sym, _ in plan.loops])
    blocks: LoopOrder = ()
    if plan.k_block:
        k = plan.reduction_syms[0]
        blocks = ((k, -(-k.extent // plan.k_block)),)
    outside = len(loops) - plan.blocked_loops
    return (*strips, *loops[:outside], *blocks), loops[outside:]


def _access_cycles(ref: Ref, plan: TilePlan, order: LoopOrder, cpu: Cpu) -> float:
    """Returns the cycles for scattered lines of an operand, or for the copies to its panel."""
    if ref in plan.panels:
        copied = order[: len(order) - panel_loops(ref, plan)]
        tiles = prod(count for sym, count in order[len(copied) :] if ref.stride(sym))
        return copy_cycles(ref, plan, cpu) * tiles * prod(count for _, count in copied)
    runs, visits = tile_runs(ref, plan), prod(count for _, count in order)
    if order and not ref.stride(order[-1][0]) and runs.occupied_bytes(cpu.l1) <= cpu.l1.size_bytes // 2:
        visits //= order[-1][1]
    return line_cycles(ref, plan, cpu) * visits


def _short_run_bytes(group: FusionGroup, plan: TilePlan, order: LoopOrder, cpu: Cpu) -> int:
    """Returns the bytes of large operands that come from memory in runs of a few lines, because the innermost loop does
    not continue them."""
    updated = [stmt.ref for stmt in group.epilogue if isinstance(stmt, Update)]
    terms = dict.fromkeys(loads(group.reductions[0].update.value))
    refs = {ref: tile_runs(ref, plan) for ref in terms if ref not in plan.panels}
    refs |= {ref: Runs.of(ref, plan.tile_sizes) for ref in (*group.reads, *updated) if ref not in terms}
    if sum(buf.nbytes for buf in {ref.buf for ref in refs}) <= cpu.streaming_threshold_bytes:
        return 0
    inner = next((sym for sym, count in reversed(order) if count > 1), None)
    if inner is None:
        return 0
    iterations = max(1, plan.tile_sizes.get(inner, 1))
    short = {
        ref.buf for ref, runs in refs.items()
        if ref.buf.nbytes > cpu.l2.size_bytes
        and runs.nbytes <= machine.MAX_SHORT_RUN_LINES * cpu.line_bytes
        and abs(ref.stride(inner)) * iterations * ref.buf.precision.nbytes > runs.nbytes
    }  # fmt: skip
    return sum(buf.nbytes for buf in short)


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


def _candidates(group: FusionGroup, plan: TilePlan, cpu: Cpu, packable: frozenset[Ref]) -> Iterator[TilePlan]:
    """Yields plans with permuted and strip-mined loops whose outermost loop is long enough to be parallelized."""
    trip_counts = plan.trip_counts
    min_trip_count = min(machine.MIN_OUTER_TRIPS, next(iter(trip_counts.values())))
    for loops in permutations(plan.loops):
        if not loops[-1][1]:
            continue
        candidate = replace(plan, loops=loops)
        if trip_counts[loops[0][0]] >= min_trip_count:
            yield from _blocked(group, candidate, cpu, packable)
        for strip_sym, _ in loops[1:]:
            for size in machine.STRIP_SIZES:
                strips = -(-trip_counts[strip_sym] // size)
                if min_trip_count <= strips and 1 < strips < trip_counts[strip_sym]:
                    yield from _blocked(group, replace(candidate, strip=(strip_sym, size)), cpu, packable)

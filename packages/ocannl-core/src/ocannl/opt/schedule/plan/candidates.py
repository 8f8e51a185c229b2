"""Candidate plans for autotuning, all with bitwise equal results."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from itertools import chain

from ocannl.ir.affine import Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import Load, Update, Var
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan.cost_model import tiles_by_cost
from ocannl.opt.schedule.plan.loop_order import order_loops, with_default_blocks
from ocannl.opt.schedule.plan.packing import packable_operands
from ocannl.opt.schedule.plan.prefetched_operands import with_prefetched_panels
from ocannl.opt.schedule.plan.register_tiles import (
    TilePlan,
    best_tile_plan,
    bounds_guards,
    plan_with_tile,
    tiling_problem,
)
from ocannl.opt.schedule.plan.scalar_plans import ScalarPlan, scalar_plan
from ocannl.opt.schedule.plan.streamed_rows import with_streamed_rows


def candidate_plans(
    group: FusionGroup, capabilities: Capabilities, is_parallel: bool = False, limit: int | None = None
) -> tuple[ScalarPlan | TilePlan, ...]:
    """Returns up to `limit` distinct plans with bitwise equal results: the model's plan first, then candidates by
    estimated cost."""
    limit = machine.MAX_CANDIDATES if limit is None else limit
    tile_plan = best_tile_plan(group, capabilities, is_parallel)
    if tile_plan is None:
        return (scalar_plan(group),)
    rounding, cpu = rounding_class(group, tile_plan), capabilities.cpu
    best = with_streamed_rows(group, tile_plan, capabilities, is_parallel)
    if best is None:
        best = with_prefetched_panels(group, order_loops(group, tile_plan, cpu, is_parallel), cpu)
    candidates = {best: None}
    variants = chain(_loop_order_variants(tile_plan), _tile_variants(group, tile_plan, capabilities))
    equal = (variant for variant in variants if rounding_class(group, variant) == rounding)
    blocked = (with_default_blocks(group, variant, cpu) for variant in equal)
    packed = (with_prefetched_panels(group, variant, cpu) for variant in blocked)
    for plan in chain(_packing_variants(group, best), packed):
        if len(candidates) == limit:
            break
        candidates.setdefault(plan)
    return tuple(candidates)


def _packing_variants(group: FusionGroup, plan: TilePlan) -> Iterator[TilePlan]:
    """Yields the plan with no packed operand, and with each single one."""
    for operands in ((), *((ref,) for ref in packable_operands(group, plan))):
        yield replace(plan, packed_operands=operands)


def _loop_order_variants(plan: TilePlan) -> Iterator[TilePlan]:
    """Yields the plan with reversed tile loops, and with each outer loop moved to the outermost position."""
    outer, tiles = [(sym, 0) for sym in plan.outer_syms], [*plan.tile_sizes.items()]
    if len(tiles) > 1:
        yield replace(plan, loops=(*outer, *tiles[::-1]))
    for first in outer[1:]:
        yield replace(plan, loops=(first, *(loop for loop in plan.loops if loop != first)))


def _tile_variants(group: FusionGroup, best: TilePlan, capabilities: Capabilities) -> Iterator[TilePlan]:
    """Yields plans with the next cheapest tiles, in the order of summation of `best`."""
    problem = tiling_problem(group, capabilities)
    assert problem is not None
    tiles = tiles_by_cost(problem.nest_shape())
    for tile in tiles:
        if tile.cycles > machine.MAX_CANDIDATE_COST_RATIO * tiles[0].cycles:
            return
        plan = plan_with_tile(group, problem, tile)
        yield plan if best.vector in best.reduction_syms else replace(plan, reduction_syms=best.reduction_syms)


def rounding_class(group: FusionGroup, plan: TilePlan) -> Hashable:
    """Returns a key that is equal for plans whose results are bitwise equal.

    The key contains the order of summation, and the partial sums if lanes are partial sums. A product is contracted to
    a fused multiply-add unless it is hoisted because several cells share it, or unless its guard is not known to hold
    in the whole tile: so the key also contains the tile sizes along the loops that decide this.
    """
    deciding = _rounding_syms(group)
    partial_sums = (plan.vectors, plan.lanes) if plan.vector in plan.reduction_syms else ()
    sizes = frozenset((sym, size) for sym, size in plan.tile_sizes.items() if sym in deciding)
    vector = plan.vector if plan.vector in (*deciding, *plan.reduction_syms) else None
    return plan.reduction_syms, partial_sums, sizes, vector


def _rounding_syms(group: FusionGroup) -> frozenset[Sym]:
    """Returns the parallel loops that some update does not depend on, or that guards of its loads depend on."""
    accs = {reduction.acc for reduction in group.reductions}
    updates = [reduction.update for reduction in group.reductions]
    updates += [stmt for stmt in group.epilogue if isinstance(stmt, Update)]
    deciding: set[Sym] = set()
    for update in updates:
        deciding |= {sym for cond in bounds_guards(update.value) for sym in cond.syms}
        if not any(isinstance(e, Var) or (isinstance(e, Load) and e.ref.buf in accs) for e in walk(update.value)):
            deciding |= set(group.syms) - free_symbols(update.value)
    return frozenset(deciding & set(group.syms))

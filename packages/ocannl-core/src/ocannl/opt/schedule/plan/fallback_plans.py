"""Plans of fixed tiles, without cost model, packing or reordered loops: used after a defect of `schedule`."""

from __future__ import annotations

from ocannl.ir.capabilities import Capabilities
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan.nest_shape import Tile
from ocannl.opt.schedule.plan.register_tiles import TilePlan, plan_with_tile, tiling_problem
from ocannl.opt.schedule.plan.scalar_plans import ScalarPlan, scalar_plan


def fallback_plan(group: FusionGroup, capabilities: Capabilities) -> ScalarPlan | TilePlan:
    """Returns the plan of a small tile along a loop in which all written cells are contiguous, and along one more loop;
    the scalar plan if there is no such loop."""
    problem = tiling_problem(group, capabilities)
    if problem is None:
        return scalar_plan(group)
    shape, syms = problem.shape_without_strides, problem.syms
    parallel = [n for n, extent in enumerate(shape.parallel_extents) if extent >= max(2, shape.lanes)]
    contiguous = (
        n for n in parallel if shape.vectorizable[n] and all(ref.stride(syms[n]) == 1 for ref in problem.writes)
    )
    vector = next(contiguous, None)
    if vector is None or not shape.lanes:
        return scalar_plan(group)
    vectors = min(machine.SIMPLE_TILE_VECTORS, syms[vector].extent // shape.lanes)
    rows = [n for n in parallel if n != vector and shape.tileable[n]][-1:] if group.reductions else []
    sizes = tuple([(n, min(machine.SIMPLE_TILE_ROWS, syms[n].extent)) for n in rows])
    return plan_with_tile(group, problem, Tile(0.0, vector, vectors, sizes))

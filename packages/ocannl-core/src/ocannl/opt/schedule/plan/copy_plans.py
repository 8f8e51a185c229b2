"""Plans of copies whose loops are known: no cost model is needed."""

from __future__ import annotations

from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import loads
from ocannl.opt.schedule.plan.register_tiles import TilePlan
from ocannl.opt.schedule.plan.scalar_plans import ScalarPlan, scalar_plan

COPIED_VECTORS = 4  # per tile of a copy along contiguous cells


def copy_plan(group: FusionGroup, lanes: int) -> ScalarPlan | TilePlan:
    """Returns the plan of a group that copies cells to contiguous addresses: in vectors, transposed in registers if
    the source is contiguous along another loop, or scalar."""
    (source,) = loads(group.epilogue[0].value)
    (target,) = group.writes
    vector = next((sym for sym in group.syms if target.stride(sym) == 1 and sym.extent > 1), None)
    if vector is None:
        return scalar_plan(group)
    outer = [(sym, 0) for sym in group.syms if sym is not vector]
    if source.stride(vector) == 1:
        vectors = min(COPIED_VECTORS, -(-vector.extent // lanes))
        return TilePlan((*outer, (vector, vectors * lanes)), (), vector, lanes, vectors)
    row = next((sym for sym, _ in outer if source.stride(sym) == 1 and sym.extent > 1), None)
    if row is None or vector.extent < lanes:
        return scalar_plan(group)
    loops = (*(item for item in outer if item[0] is not row), (row, lanes), (vector, lanes))
    return TilePlan(loops, (), vector, lanes, 1, row)

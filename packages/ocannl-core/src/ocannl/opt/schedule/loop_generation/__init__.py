"""Code generation for scheduled groups: builds the loops of a group from its plan."""

from __future__ import annotations

from ocannl.ir.loops import Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import as_statement
from ocannl.opt.schedule.loop_generation.packing import pack_operands
from ocannl.opt.schedule.loop_generation.scalar_loops import build_scalar_loops
from ocannl.opt.schedule.loop_generation.tiled_loops import build_tiled_loops
from ocannl.opt.schedule.plan import Plan, ScalarPlan, TilePlan


def build_loops(group: FusionGroup, plan: Plan, names: Namer) -> Stmt:
    """Builds the loops of the group according to the plan; `names` provides fresh names."""
    match plan:
        case ScalarPlan():
            return as_statement(build_scalar_loops(group, plan, names))
        case TilePlan():
            return as_statement(build_tiled_loops(group, plan, names))


__all__ = ["pack_operands", "build_loops"]

"""Schedules as data: one `Plan` per fusion group, from which `build_loops` generates the loops.

    Plan = ScalarPlan | TilePlan

A plan determines how a group is executed, not what it computes, so plans can come from the cost model, from autotuning,
from a user or from a cache.
"""

from __future__ import annotations

from ocannl.ir.capabilities import Capabilities
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan.candidates import candidate_plans
from ocannl.opt.schedule.plan.loop_order import order_loops
from ocannl.opt.schedule.plan.prefetched_operands import with_prefetched_operands, with_prefetched_panels
from ocannl.opt.schedule.plan.register_tiles import TilePlan, best_tile_plan
from ocannl.opt.schedule.plan.scalar_plans import ScalarPlan, scalar_plan
from ocannl.opt.schedule.plan.streamed_rows import with_streamed_rows

Plan = ScalarPlan | TilePlan


def model_plan(group: FusionGroup, capabilities: Capabilities, is_parallel: bool = False) -> Plan:
    """Returns the cost model's plan for the group; `is_parallel` if its outermost loop may run on several threads."""
    tile = best_tile_plan(group, capabilities, is_parallel)
    if tile is None:
        return scalar_plan(group)
    streamed = with_streamed_rows(group, tile, capabilities, is_parallel)
    if streamed is not None:
        return streamed
    cpu = capabilities.cpu
    plan = with_prefetched_panels(group, order_loops(group, tile, cpu, is_parallel), cpu)
    return with_prefetched_operands(group, plan, cpu)


__all__ = ["ScalarPlan", "Plan", "TilePlan", "model_plan", "candidate_plans"]

"""Schedules as data: one `Plan` for each group, which `realize` turns into loops.

    Plan = Plain | Tiled

A plan says how a group runs, never what it computes, so a heuristic, a search, a user or a cache can produce it.
"""

from __future__ import annotations

from ocannl.ir.capabilities import Capabilities
from ocannl.opt.group import Group
from ocannl.opt.plan.arrange import arranged
from ocannl.opt.plan.plain import Plain, plain
from ocannl.opt.plan.rivals import rivals
from ocannl.opt.plan.tiled import Tiled, tiled

Plan = Plain | Tiled


def plan(group: Group, capabilities: Capabilities, shared: bool = False) -> Plan:
    """The plan of the model for this group on this target; threads may share its outermost loop."""
    tile = tiled(group, capabilities, shared)
    return plain(group) if tile is None else arranged(group, tile, capabilities.caches)


__all__ = ["Plain", "Plan", "Tiled", "plan", "rivals"]

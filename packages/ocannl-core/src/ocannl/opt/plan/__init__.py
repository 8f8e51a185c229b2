"""Schedules as data: one `Plan` for each nest, which `realize` turns into a nest again.

    Plan = Plain | Tiled

A plan says how a nest runs, never what it computes, so a heuristic, a search, a user or a cache can produce it.
"""

from __future__ import annotations

from ocannl.ir.capabilities import Capabilities
from ocannl.opt.nest import Nest
from ocannl.opt.plan.plain import Plain, plain
from ocannl.opt.plan.tiled import Tiled, tiled

Plan = Plain | Tiled


def plan(nest: Nest, capabilities: Capabilities) -> Plan:
    """The plan of the model for this nest on this target."""
    return tiled(nest, capabilities) or plain(nest)


__all__ = ["Plain", "Plan", "Tiled", "plan"]

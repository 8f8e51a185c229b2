"""Schedules as data: one `Plan` for each nest, which `realize` turns into a nest again.

    Plan = Plain

A plan says how a nest runs, never what it computes, so a heuristic, a search, a user or a cache can produce it.
"""

from __future__ import annotations

from ocannl.ir.capabilities import Capabilities
from ocannl.opt.nest import Nest
from ocannl.opt.plan.plain import Plain, plain

Plan = Plain


def plan(nest: Nest, capabilities: Capabilities) -> Plan:
    """The plan of the model for this nest on this target."""
    return plain(nest)


__all__ = ["Plain", "Plan", "plan"]

"""Scheduled groups, each built in one step from the group and its plan."""

from __future__ import annotations

from ocannl.ir.loops import Stmt
from ocannl.ir.names import Namer
from ocannl.opt.group import Group
from ocannl.opt.nest import block
from ocannl.opt.plan import Plain, Plan, Tiled
from ocannl.opt.realize.packed import packed
from ocannl.opt.realize.plain import realize_plain
from ocannl.opt.realize.tiled import realize_tiled


def realize(group: Group, plan: Plan, names: Namer) -> Stmt:
    """The group as the plan has it run; `names` gives out names that the routine does not use yet."""
    match plan:
        case Plain():
            return block(realize_plain(group, plan, names))
        case Tiled():
            return block(realize_tiled(group, plan, names))


__all__ = ["packed", "realize"]

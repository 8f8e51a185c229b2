"""Scheduled nests, each built in one step from a plain nest and its plan."""

from __future__ import annotations

from ocannl.ir.loops import Stmt
from ocannl.ir.names import Namer
from ocannl.opt.nest import Nest
from ocannl.opt.plan import Plain, Plan, Tiled
from ocannl.opt.realize.plain import block, realize_plain
from ocannl.opt.realize.tiled import realize_tiled


def realize(nest: Nest, plan: Plan, names: Namer) -> Stmt:
    """The nest as the plan has it run; `names` gives out names that the routine does not use yet."""
    match plan:
        case Plain():
            return block(realize_plain(nest, plan, names))
        case Tiled():
            return block(realize_tiled(nest, plan, names))


__all__ = ["realize"]

"""Chooses a plan for every group and builds the loops that it describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Body, Buf, For, If, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.opt.group import Group, group_of
from ocannl.opt.nest import block, is_claimed, names_of
from ocannl.opt.plan import Plan, Tiled, plan
from ocannl.opt.realize import packed, realize


def schedule(proc: Proc, capabilities: Capabilities) -> Proc:
    """Replaces each group by the loops that `realize` makes of its plan; here for a target without vectors:

        proc step                         proc step
          w : f32[5,7]  in                  w : f32[5,7]  in
          y : f32[5]    inout               y : f32[5]    inout
          for i in 0..5:                    for i in 0..5:
            for j in 0..7:        ==>         local acc: f32 reg
              y[i] += w[i, j]                 acc = y[i]
                                              for j in 0..7:
                                                acc += w[i, j]
                                              y[i] = acc

    The order of summation depends on the program and the target alone.
    """
    return planned(proc, lambda group: plan(group, capabilities))


def planned(proc: Proc, choose: Callable[[Group], Plan]) -> Proc:
    """Every group by the plan that is chosen for it."""
    names = Namer(names_of(proc))
    bufs: list[Buf] = []

    def whole(stmt: Stmt) -> Body:
        """A statement of the routine: operands may be copied before it."""
        group = group_of(stmt, names) if not is_claimed(stmt) else None
        if group is None:
            return (inner(stmt),)
        chosen = choose(group)
        if not isinstance(chosen, Tiled) or not chosen.panels:
            return (realize(group, chosen, names),)
        made = packed(group, chosen, names)
        bufs.extend(made.bufs)
        return (*(realize(copy, choose(copy), names) for copy in made.copies), block(made.body))

    def part(stmt: Stmt) -> Stmt:
        group = group_of(stmt, names)
        return inner(stmt) if group is None else realize(group, choose(group), names)

    def inner(stmt: Stmt) -> Stmt:
        match stmt:
            case For(body=body):
                return replace(stmt, body=tuple(map(part, body)))
            case If(cond, then, orelse):
                return If(cond, tuple(map(part, then)), tuple(map(part, orelse)))
            case _:
                return stmt

    body = tuple(chain.from_iterable(map(whole, proc.body)))
    return replace(proc, body=body, bufs=(*proc.bufs, *bufs))

"""Chooses a plan for every group and builds the loops that it describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import For, If, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.opt.group import Group, group_of
from ocannl.opt.nest import is_claimed, names_of
from ocannl.opt.plan import Plan, plan
from ocannl.opt.realize import realize


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

    def scheduled(stmt: Stmt) -> Stmt:
        group = group_of(stmt, names) if not is_claimed(stmt) else None
        if group is not None:
            return realize(group, choose(group), names)
        match stmt:
            case For(body=body):
                return replace(stmt, body=tuple(map(scheduled, body)))
            case If(cond, then, orelse):
                return If(cond, tuple(map(scheduled, then)), tuple(map(scheduled, orelse)))
            case _:
                return stmt

    return replace(proc, body=tuple([scheduled(stmt) for stmt in proc.body]))

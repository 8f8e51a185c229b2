"""Chooses a plan for every group and builds the loops that it describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import For, If, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.opt.group import Group, group_of
from ocannl.opt.nest import names_of
from ocannl.opt.plan import Plan, plan, rivals
from ocannl.opt.realize import realize

Choices = Mapping[int, tuple[int, ...]]
"""Which of its rivals each group has, by the places of nests in a program; where nothing is said, the model's plan."""
BY_MODEL: Choices = MappingProxyType({})


def schedule(proc: Proc, capabilities: Capabilities, choices: Choices = BY_MODEL) -> Proc:
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

    The order of summation depends on the program and the target alone, whatever the choices.
    """
    names = Namer(names_of(proc))
    body = []
    for place, stmt in enumerate(proc.body):
        numbers = iter(choices.get(place, ()))

        def choose(group: Group, numbers: Iterator[int] = numbers) -> Plan:
            number = next(numbers, 0)
            return rivals(group, capabilities)[number] if number else plan(group, capabilities)

        body.append(scheduled(stmt, choose, names))
    return replace(proc, body=tuple(body))


def planned(proc: Proc, choose: Callable[[Group], Plan]) -> Proc:
    """Every group by the plan that is chosen for it."""
    names = Namer(names_of(proc))
    return replace(proc, body=tuple([scheduled(stmt, choose, names) for stmt in proc.body]))


def groups(stmt: Stmt, names: Namer) -> Iterator[Group]:
    """Those in a statement, in order."""
    group = group_of(stmt, names)
    if group is not None:
        yield group
        return
    match stmt:
        case For(body=body):
            for each in body:
                yield from groups(each, names)
        case If(_, then, orelse):
            for each in (*then, *orelse):
                yield from groups(each, names)


def scheduled(stmt: Stmt, choose: Callable[[Group], Plan], names: Namer) -> Stmt:
    """The groups in a statement, in order, by the plans that are chosen for them."""
    group = group_of(stmt, names)
    if group is not None:
        return realize(group, choose(group), names)
    match stmt:
        case For(body=body):
            return replace(stmt, body=tuple([scheduled(each, choose, names) for each in body]))
        case If(cond, then, orelse):
            sides = (tuple([scheduled(each, choose, names) for each in side]) for side in (then, orelse))
            return If(cond, *sides)
        case _:
            return stmt

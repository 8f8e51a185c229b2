"""Chooses a plan for every group and builds the loops that it describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Buf, For, If, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.opt.group import Group, group_of
from ocannl.opt.nest import block, is_claimed, names_of
from ocannl.opt.plan import Plan, Tiled, plan, rivals
from ocannl.opt.realize import packed, realize

Choices = Mapping[int, tuple[int, ...]]
"""Which of its rivals each group has, by the places of nests in a program; where nothing is said, the model's plan."""
BY_MODEL: Choices = MappingProxyType({})
Chooser = Callable[[Group, bool], Plan]
"""The plan of a group; the flag says whether threads share its outermost loop, if it is long."""


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

    def by(place: int) -> Chooser:
        numbers = iter(choices.get(place, ()))  # copies, which come last, are always as the model has them

        def choose(group: Group, shared: bool) -> Plan:
            number = next(numbers, 0)
            return rivals(group, capabilities, shared)[number] if number else plan(group, capabilities, shared)

        return choose

    return _planned(proc, by)


def planned(proc: Proc, choose: Chooser) -> Proc:
    """Every group by the plan that is chosen for it."""
    return _planned(proc, lambda place: choose)


def groups(stmt: Stmt, names: Namer) -> Iterator[tuple[Group, bool]]:
    """Those in a statement, in order, as a `Chooser` is asked for their plans."""
    group = _whole(stmt, names)
    if group is not None:
        yield group, True
    else:
        for inner in _groups_inside(stmt, names):
            yield inner, False


def _groups_inside(stmt: Stmt, names: Namer) -> Iterator[Group]:
    for each in (*stmt.then, *stmt.orelse) if isinstance(stmt, If) else stmt.body if isinstance(stmt, For) else ():
        group = group_of(each, names)
        if group is not None:
            yield group
        else:
            yield from _groups_inside(each, names)


def _planned(proc: Proc, by: Callable[[int], Chooser]) -> Proc:
    """The groups of each statement by the plans that are chosen for them there."""
    names = Namer(names_of(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for place, stmt in enumerate(proc.body):
        choose = by(place)
        group = _whole(stmt, names)
        chosen = choose(group, True) if group is not None else None
        if group is None or chosen is None:
            body.append(_inner(stmt, choose, names))
        elif not isinstance(chosen, Tiled) or not chosen.is_prepared:
            body.append(realize(group, chosen, names))
        else:  # operands are copied before it
            made = packed(group, chosen, names)
            bufs += made.bufs
            body += [realize(copy, choose(copy, False), names) for copy in made.copies]
            body.append(block(made.body))
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs))


def _whole(stmt: Stmt, names: Namer) -> Group | None:
    """The group that a statement is, if none of its loops is to stay outside."""
    return None if is_claimed(stmt) else group_of(stmt, names)


def _part(stmt: Stmt, choose: Chooser, names: Namer) -> Stmt:
    group = group_of(stmt, names)
    return _inner(stmt, choose, names) if group is None else realize(group, choose(group, False), names)


def _inner(stmt: Stmt, choose: Chooser, names: Namer) -> Stmt:
    match stmt:
        case For(body=body):
            return replace(stmt, body=tuple([_part(each, choose, names) for each in body]))
        case If(cond, then, orelse):
            sides = (tuple([_part(each, choose, names) for each in side]) for side in (then, orelse))
            return If(cond, *sides)
        case _:
            return stmt

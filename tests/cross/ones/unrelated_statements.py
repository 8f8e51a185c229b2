"""Inserts unrelated statements into a program: uses of its tensors that share no open leaf with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ones.generate import Writer, pruned
from ones.program import Leaf, Program, Statement
from ones.rows import Rows


def with_unrelated(program: Program, random: Random, count: int = 4) -> Program:
    """The program with about so many foreign operations written between its statements."""
    closed = closed_names(program)
    statements: list[Statement] = []
    visible: dict[str, Rows] = {}
    foreign: list[Statement] = []
    gap = max(1, len(program.statements) // count)
    for n, statement in enumerate(program.statements):
        statements.append(statement)
        if statement.name in closed and not statement.rule:
            visible[statement.name] = statement.rows
        if visible and n % gap == gap - 1:
            more = uses(random, visible, len(foreign))
            statements += more
            foreign += more
    names = frozenset(s.name for s in foreign)
    requested = frozenset(name for name in names if random.random() < 0.3)
    requested |= program.requested
    return kept_leaves(replace(program, statements=tuple(statements), foreign=names, requested=requested))


def closed_names(program: Program) -> set[str]:
    """The tensors that depend on no open leaf."""
    closed: set[str] = set()
    for s in program.statements:
        if closed.issuperset(s.operands) and not (isinstance(s, Leaf) and s.is_open):
            closed.add(s.name)
    return closed


def uses(random: Random, visible: dict[str, Rows], number: int) -> Sequence[Statement]:
    """A few operations on visible tensors; open leaves among the operands are new."""
    writer = Writer(random, share_open=random.choice((0.0, 0.3)), prefix=f"f{number}_")
    writer.ill = 1.0
    writer.rows = dict(list(visible.items())[-6:])
    for _ in range(6):
        writer.step()
        if sum(not isinstance(s, Leaf) for s in writer.statements) >= 2:
            break
    return writer.statements


def kept_leaves(program: Program) -> Program:
    own_names = {s.name for s in program.own.statements}
    slim = {s.name for s in pruned(program).statements} | own_names
    return replace(program, statements=tuple(s for s in program.statements if s.name in slim))

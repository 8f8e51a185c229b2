"""Shrinks a failing program while the kind of the failure stays the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from ones.closed_shape_oracles import Oracle
from ones.program import Leaf, Line, Program, Statement

TRIES = 400
REPEATS = 6  # of judges that draw orders at random


def kind_of(complaint: str) -> str:
    """The complaint without names and numbers."""
    return re.sub(r"`[^`]*`|\d+|[a-z]\d[,|>-]*", "", complaint.split("\n")[0])[:50]


def complaint_of(oracle: Oracle, program: Program) -> str:
    for seed in range(REPEATS):
        complaint = oracle(program, Random(seed))
        if complaint:
            return complaint
    return ""


def shrink(program: Program, oracle: Oracle, complaint: str) -> tuple[Program, str]:
    """The smallest program that is found, and what the judge says of it."""
    tries, progress = 0, True
    while progress and tries < TRIES:
        progress = False
        for candidate in smaller(program):
            tries += 1
            message = complaint_of(oracle, candidate)
            if message and kind_of(message) == kind_of(complaint):
                program, complaint, progress = candidate, message, True
                break
            if tries >= TRIES:
                break
    return program, complaint


def smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them: without a statement and what uses it, or with data for an operation."""
    for statement in program.statements:
        yield without(program, {statement.name})
    for number, statement in enumerate(program.statements):
        if isinstance(statement, Line) and not statement.rule and statement.name not in program.foreign:
            leaf: Statement = Leaf(statement.name, statement.rows)
            statements = (*program.statements[:number], leaf, *program.statements[number + 1 :])
            yield replace(program, statements=statements)
        if isinstance(statement, Leaf) and statement.role != "data" and not statement.hidden:
            leaf = replace(statement, role="data")
            statements = (*program.statements[:number], leaf, *program.statements[number + 1 :])
            yield replace(program, statements=statements)
    for name in sorted(program.requested):
        yield replace(program, requested=program.requested - {name})


def without(program: Program, names: set[str]) -> Program:
    kept = []
    gone = set(names)
    for statement in program.statements:
        if statement.name in gone or not gone.isdisjoint(statement.operands):
            gone.add(statement.name)
        else:
            kept.append(statement)
    return replace(program, statements=tuple(kept), requested=program.requested - gone, foreign=program.foreign - gone)

"""The laws that the solver's answers to systems of shapes obey."""

from __future__ import annotations

import re
from math import prod
from random import Random

from ocannl.base.errors import ShapeError
from ocannl.infer.spec import Fixed
from shape_systems.shape_oracle import Names, Row, Rows, holds
from shape_systems.systems import AT_ONCE, System

ASKS = "nothing says"
"""Stands in errors that ask for what an operation cannot know; it may ask at once."""


def uncommitted(system: System, answer: list[Rows]) -> str:
    """A leaf that could be as large as what it is stretched to, all else being the same.

    Where fixed places are read, axes are as large as these ask for, before they are as large as their uses.
    """
    specs = [row for it in system.operations for shape in it.logic.spec.shapes for _, row in shape.rows]
    if any(isinstance(axis, Fixed) for row in specs for axis in row.axes):
        return ""
    for it in system.operations:
        names: Names = {}
        holds(it.logic, [answer[n] for n in (*it.operands, it.result)], it.sizes, names)
        for use in it.logic.stretch:
            n, k = it.operands[use.slot // 3], use.slot % 3
            row, other = answer[n][k], names[f"..{use.spec.var}"]
            is_open = system.roles[n] != "result" and system.rows[n][k] is None
            if is_open and count(other) > count(row):  # type: ignore[arg-type]
                changed = [*answer]
                changed[n] = tuple(other if j == k else r for j, r in enumerate(answer[n]))  # type: ignore[misc]
                if not system.unsound(changed):
                    return f"row {k} of {n} is {row}, but could be {other} as its use"
    return ""


def count(row: Row) -> int:
    return prod(size or 0 for size, _ in row)


def unhelpful(system: System, error: str) -> str:
    """An error about a system that can be satisfied which does not name leaves, or sizes, that help when given."""
    assert system.planted is not None
    answer: list[Rows] | str = error
    while isinstance(answer, str):
        if answer.startswith(AT_ONCE) and ASKS not in answer:
            return answer
        names = re.findall(r"\bt\d+\b", answer)
        told = system.told(names)
        if told is None:
            told = next((s for part in re.findall(r"`([^`]*)`", answer) if (s := system.named(part))), None)
        if told is None:
            return f"{answer}\nnames nothing that could be given in\n{system}"
        system = told
        answer = system.solve(range(system.steps))
    return ""


def judge(
    system: System, random: Random, small: tuple[tuple[int, ...], int] | None = None, guesses: bool = True
) -> str:
    """What is wrong with the solver's answer, in words; empty if nothing.

    `small` are shapes that are all tried for what is refused; without `guesses`, this holds of what is refused late,
    too, unless for want of facts, and nothing is refused late where no shapes can be tried.
    """
    answer = system.solve(range(system.steps))
    for _ in range(2):
        order = system.an_order(random)
        other = system.solve(order)
        if outcome(other) != outcome(answer):
            return f"in the order {order}: {other}\nbut else: {answer}"
    if not isinstance(answer, str):
        if wrong := system.unsound(answer) or uncommitted(system, answer):
            return wrong
        shapes = system.build(range(system.steps))
        again = system.answer(shapes)
        return "another answer" if isinstance(again, str) else system.misprojected(shapes, again)
    if system.planted is not None:
        return answer if answer.startswith(AT_ONCE) and ASKS not in answer else ""
    is_guess = not answer.startswith(AT_ONCE)
    if is_guess and (guesses or ASKS in answer):
        return ""
    if small is None:
        return f"a guess was wrong: {answer}" if is_guess else ""
    witness = system.witness(*small, 1500)
    return f"{answer}\nbut {witness}" if witness is not None else ""


def traces(system: System) -> str:
    """What an operation that was refused has left behind."""
    kept: list[int] = []
    try:
        shapes = system.tensors()
    except ShapeError:  # what is given of one tensor disagrees
        return ""
    for n in range(system.steps):
        if not system.is_ready(n, [shape is not None for shape in shapes]):
            continue  # it needs what was refused
        before = [shape.known for shape in shapes if shape is not None]
        try:
            system.operate(shapes, n)
            kept.append(n)
        except ShapeError:
            if [shape.known for shape in shapes if shape is not None] != before:
                return f"operation {n} was refused, but told something"
    answer = system.answer(shapes)
    other = system.solve(kept)
    if answer != other:
        return f"{answer}\nbut without what was refused: {other}"
    if isinstance(answer, str) and (again := system.answer(shapes)) != answer:
        return f"{answer}\nbut asked again: {again}"
    return ""


def outcome(answer: list[Rows] | str) -> object:
    """What must not depend on the order: all but the words of an error."""
    return "refused" if isinstance(answer, str) else answer

"""Properties of the solutions of systems of shapes."""

from __future__ import annotations

import re
from math import prod
from random import Random

from ocannl.base.errors import ShapeError
from ocannl.infer.spec import Fixed
from shape_systems.shape_oracle import Names, Row, Rows, holds
from shape_systems.size_evidence import names_without_evidence
from shape_systems.systems import AT_ONCE, System

ASKS = "nothing says"
"""Occurs in errors about undetermined sizes, which may be raised immediately."""


def check_leaves_committed(system: System, answer: list[Rows]) -> str:
    """Describes a leaf that could be as large as the use it broadcasts to; empty if there is none.

    Systems with fixed indices are skipped: these determine sizes before uses do.
    """
    specs = [row for op in system.operations for shape in op.logic.spec.shapes for _, row in shape.rows]
    if any(isinstance(axis, Fixed) for row in specs for axis in row.axes):
        return ""
    for op in system.operations:
        names: Names = {}
        holds(op.logic, [answer[n] for n in (*op.operands, op.result)], op.sizes, names)
        for use in op.logic.stretch:
            n, k = op.operands[use.slot // 3], use.slot % 3
            row, alternative = answer[n][k], names[f"..{use.spec.var}"]
            is_open = system.roles[n] != "result" and system.rows[n][k] is None
            if is_open and count(alternative) > count(row):  # type: ignore[arg-type]
                changed = [*answer]
                changed[n] = tuple(alternative if j == k else r for j, r in enumerate(answer[n]))  # type: ignore[misc]
                if not system.unsound(changed):
                    return f"row {k} of {n} is {row}, but could be {alternative} as its use"
    return ""


def count(row: Row) -> int:
    return prod(size or 0 for size, _ in row)


def check_error_message(system: System, error: str) -> str:
    """Describes an error that names no leaf or size whose specification helps; empty if all errors do."""
    assert system.planted is not None
    answer: list[Rows] | str = error
    while isinstance(answer, str):
        if answer.startswith(AT_ONCE) and ASKS not in answer:
            return answer
        names = re.findall(r"\bt\d+\b", answer)
        specified = system.with_planted_rows(names)
        if specified is None:
            systems = (system.with_planted_sizes(part) for part in re.findall(r"`([^`]*)`", answer))
            specified = next((candidate for candidate in systems if candidate), None)
        if specified is None:
            return f"{answer}\nnames nothing that could be given in\n{system}"
        system = specified
        answer = system.solve(range(system.steps))
    return ""


def check_answer(
    system: System, random: Random, small: tuple[tuple[int, ...], int] | None = None, guesses: bool = True
) -> str:
    """Describes a violation by the solver; empty if there is none.

    For refused systems, all shapes of the sizes and ranks `small` are tried. Systems refused after a default are exempt
    if `guesses`, or if the error asks for a size.
    """
    answer = system.solve(range(system.steps))
    for _ in range(2):
        order = system.random_order(random)
        alternative = system.solve(order)
        if outcome(alternative) != outcome(answer):
            return f"in the order {order}: {alternative}\nbut else: {answer}"
    if not isinstance(answer, str):
        if violation := system.unsound(answer) or check_leaves_committed(system, answer):
            return violation
        if names := names_without_evidence(system.rows, system.cells, system.operations, answer):
            return f"nothing determines the sizes of {names}"
        shapes = system.build(range(system.steps))
        again = system.answer(shapes)
        return "another answer" if isinstance(again, str) else system.check_projections(shapes, again)
    if system.planted is not None:
        return answer if answer.startswith(AT_ONCE) and ASKS not in answer else ""
    is_guess = not answer.startswith(AT_ONCE)
    if is_guess and (guesses or ASKS in answer):
        return ""
    if small is None:
        return f"a guess was wrong: {answer}" if is_guess else ""
    witness = system.witness(*small, 1500)
    return f"{answer}\nbut {witness}" if witness is not None else ""


def check_rollback(system: System) -> str:
    """Describes an effect left behind by a refused operation; empty if there is none."""
    accepted: list[int] = []
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
            accepted.append(n)
        except ShapeError:
            if [shape.known for shape in shapes if shape is not None] != before:
                return f"operation {n} was refused, but changed shapes"
    answer = system.answer(shapes)
    alternative = system.solve(accepted)
    if answer != alternative:
        return f"{answer}\nbut without what was refused: {alternative}"
    if isinstance(answer, str) and (again := system.answer(shapes)) != answer:
        return f"{answer}\nbut asked again: {again}"
    return ""


def outcome(answer: list[Rows] | str) -> object:
    """The part of an answer that must not depend on the order: all but the text of an error."""
    return "refused" if isinstance(answer, str) else answer

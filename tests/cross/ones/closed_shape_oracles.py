"""Shape oracles for programs whose leaves have all rows specified; each returns a failure, or an empty text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import ocannl as oc
from ones.build import Built, ask, build, rows_of
from ones.program import Program
from ones.rows import RULES, Rows, show, sizes

Oracle = Callable[[Program, Random], str]


def differences(program: Program, built: Built) -> Iterator[str]:
    """Where shapes are not those of NumPy's rules, and what is refused, or accepted, against the rules."""
    for statement in program.statements:
        name = statement.name
        if name in built.refused:
            if not statement.rule:
                yield f"`{name}` is refused: {built.refused[name]}"
            elif not isinstance(built.refused[name], oc.ShapeError):
                yield f"`{name}` is refused by {built.refused[name]!r}, which is no ShapeError"
        elif name in built.tensors:
            dims = ask(name, built)
            if statement.rule:
                if dims is not None:
                    yield f"`{name}` is {show(rows_of(built.tensors[name]))}, though {RULES[statement.rule]}"
            elif dims is None:
                yield f"`{name}` cannot be asked: {built.asking[name]}"
            elif differs(rows_of(built.tensors[name]), statement.rows):
                yield f"`{name}` is {show(rows_of(built.tensors[name]))}, not {show(statement.rows)}"


def differs(rows: Rows, expected: Rows) -> bool:
    """In size, or in a unit that NumPy's rules hand on; what has none may take it from what it meets."""
    if list(map(sizes, rows)) != list(map(sizes, expected)):
        return True
    pairs = [pair for row, like in zip(rows, expected, strict=True) for pair in zip(row, like, strict=True)]
    return any(like.unit not in (None, axis.unit) for axis, like in pairs)


def follows_numpy(program: Program, random: Random) -> str:
    """Every shape is that of NumPy's rules, and is there as soon as the operands are; what a rule refuses is refused
    where it is written."""
    built = build(program)
    for name, tensor in built.tensors.items():
        shape = tensor.known_shape
        if "?" in shape or "..." in shape:
            return f"`{name}` is {shape} though its operands are there"
    return next(differences(program, built), "")


def ignores_order(program: Program, random: Random) -> str:
    """The order of statements and of shape queries does not affect the result."""
    shuffled = program.reordered(random).asking(random, random.choice((0.0, 0.2, 0.8)))
    wrong = next(differences(shuffled, build(shuffled)), "")
    return f"{wrong}\nin the order\n{shuffled}" if wrong else ""


def is_isolated(program: Program, random: Random) -> str:
    """Statements that share no open leaf with the others change no shape of these."""
    return next(differences(program.own, build(program)), "")

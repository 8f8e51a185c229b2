"""Rows of axes and NumPy's rule of broadcasting, applied to each of the three rows alone.

This package shares no code with shape inference: its rules are read off the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

KINDS = ("batch", "input", "output")
MEMORY = (0, 2, 1)  # batch, output, input


class Axis(NamedTuple):
    size: int
    unit: str | None = None


Row = tuple[Axis, ...]
Rows = tuple[Row, Row, Row]  # batch, input, output

STRETCHABLE = Axis(1)
SCALAR: Rows = ((), (), ())

RULES = {
    "broadcast": "axes that meet cell by cell are equal, or one of them is a plain 1",
    "equal": "axes of one name, and rows of one row variable, are equal: nothing is stretched in a spec",
    "count": "a row has as many axes as the spec writes",
    "index": "an axis that is read at a fixed index reaches it",
    "divide": "a merged axis divides by the sizes of its parts",
    "add": "parts that are laid one after another make the axis",
    "window": "a window fits its axis to the cell, and has a tap and a place",
    "unmarked": "a window without a mark does not size an axis: `<+` and `=+` do",
    "ambiguous": "an axis that several names without sizes share is not divided by guessing",
    "unsized": "a name that only the result has, or a padded window, has a size that is given",
    "contract": "the output row of the second operand of `@` stretches to the input row of the first",
    "batch": "a slice is taken of a batch axis",
}


class Refused(Exception):
    """The documented rule that forbids an operation on these shapes."""

    def __init__(self, rule: str) -> None:
        assert rule in RULES, rule
        super().__init__(RULES[rule])
        self.rule = rule


class Unspecified(Exception):
    """No rule says what the shape is; such an operation is not generated."""


def equal(a: Axis, b: Axis, rule: str = "equal") -> Axis:
    """An axis that both are, with the unit of either."""
    if a.size != b.size or (a.unit and b.unit and a.unit != b.unit):
        raise Refused(rule)
    return Axis(a.size, a.unit or b.unit)


def meet(a: Axis, b: Axis) -> Axis:
    """What two axes make cell by cell."""
    if a == STRETCHABLE or b == STRETCHABLE:
        return b if a == STRETCHABLE else a
    return equal(a, b, "broadcast")


def broadcast(rows: Sequence[Row]) -> Row:
    """The row that all rows stretch to; shorter rows get axes in front."""
    length = max(map(len, rows), default=0)
    padded = [(STRETCHABLE,) * (length - len(row)) + row for row in rows]
    return tuple(reduce(meet, axes) for axes in zip(*padded, strict=True))


def broadcast_shapes(shapes: Sequence[Rows]) -> Rows:
    batch, input, output = (broadcast([rows[kind] for rows in shapes]) for kind in range(3))
    return batch, input, output


def contract(left: Rows, right: Rows) -> Rows:
    """The shape of `left @ right`."""
    middle = broadcast([left[1], right[2]])
    if [axis.size for axis in middle] != [axis.size for axis in left[1]]:
        raise Refused("contract")
    return broadcast([left[0], right[0]]), right[1], left[2]


def transpose(rows: Rows) -> Rows:
    return rows[0], rows[2], rows[1]


def sizes(row: Iterable[Axis]) -> tuple[int, ...]:
    return tuple(axis.size for axis in row)


def dims(rows: Rows) -> tuple[int, ...]:
    """Sizes in memory order."""
    return tuple(axis.size for kind in MEMORY for axis in rows[kind])


def cells(rows: Rows) -> int:
    return prod(dims(rows))


def plain(row: Iterable[int]) -> Row:
    return tuple(map(Axis, row))


def show(rows: Rows) -> str:
    """As `str(t.shape)` prints it, with units."""
    batch, input, output = (",".join(f"{a.unit} {a.size}" if a.unit else str(a.size) for a in row) for row in rows)
    return f"{batch}|{input}->{output}"

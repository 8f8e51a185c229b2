"""Shapes as texts in the form in which they are printed: `32|row=28,28->10`."""

from __future__ import annotations

import re

from ocannl.infer.parse import parse_shape
from ocannl.infer.spec import Fixed, Kind, RowSpec

Size = int | tuple[str, int]

UNIT = re.compile(r"([^\W\d][\w-]*)\s*=\s*(?=\d)")
SEPARATOR = re.compile(r"->|[|,\s]+")


def rows_of_text(text: str) -> list[tuple[Kind, RowSpec, list[Size]]]:
    """The rows of a text, with the sizes among their axes, or pairs of unit and size."""
    if not isinstance(text, str):
        parse_shape(text)  # raises the error of this type
    axes = [axis for axis in SEPARATOR.split(UNIT.sub(r"\1=", text)) if axis not in ("", "...")]
    units = iter([axis.rpartition("=")[0] for axis in axes])
    rows: list[tuple[Kind, RowSpec, list[Size]]] = []
    for kind, row in parse_shape(UNIT.sub("", text)).rows:
        sizes: list[Size] = []
        for axis in row.axes:
            unit = next(units, "")
            if isinstance(axis, Fixed) and isinstance(axis.index, int):
                sizes.append((unit, axis.index) if unit else axis.index)
        rows.append((kind, row, sizes))
    return rows

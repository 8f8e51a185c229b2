"""The shape of a tensor as users see it: a value, which is equal to other shapes of the same sizes and units."""

from __future__ import annotations

from ocannl.infer.reasons import Reasons
from ocannl.infer.shape import Axis, Shape


class TensorShape:
    """Three rows of axes. Reading them, printing and comparing finishes inference of everything connected; `repr` shows
    what is known so far."""

    __slots__ = ("_cells",)

    def __init__(self, cells: Shape) -> None:
        self._cells = cells

    @property
    def batch(self) -> tuple[Axis, ...]:
        return self._cells.batch

    @property
    def input(self) -> tuple[Axis, ...]:
        return self._cells.input

    @property
    def output(self) -> tuple[Axis, ...]:
        return self._cells.output

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes in memory order: batch, output, input."""
        return self._cells.dims

    @property
    def known(self) -> str:
        """What is known so far; `?` is a size, `...` a part of a row that is not known."""
        return self._cells.known

    @property
    def is_solved(self) -> bool:
        """Everything is known already."""
        return self._cells.is_solved

    def explain(self) -> Reasons:
        """Why the axes have their sizes, to be printed."""
        return self._cells.explain()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorShape):
            return NotImplemented
        return self._rows() == other._rows()

    def __hash__(self) -> int:
        return hash(self._rows())

    def _rows(self) -> tuple[tuple[Axis, ...], ...]:
        return self.batch, self.input, self.output

    def __str__(self) -> str:
        return str(self._cells)

    def __repr__(self) -> str:
        return f"<shape {self.known or 'of no axes'}>"

"""Public shape of a tensor: a value type, compared by sizes and units."""

from __future__ import annotations

from ocannl.infer.shape import Axis, Shape
from ocannl.infer.size_provenance import Reasons


class TensorShape:
    """Three rows of axes. Reading, printing and comparing finish the inference of all connected tensors; `repr` prints
    the shape inferred so far."""

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
        """The shape inferred so far; `?` is an unknown size, `...` an unknown part of a row."""
        return self._cells.known

    @property
    def is_solved(self) -> bool:
        """True if all sizes are known."""
        return self._cells.is_solved

    def explain(self) -> Reasons:
        """Returns a printable explanation of all sizes."""
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

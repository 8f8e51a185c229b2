"""Public shape of a tensor: a value type, compared by sizes and units."""

from __future__ import annotations

from typing import NoReturn

from ocannl.base import html_text, spelling
from ocannl.base.errors import ArgumentError
from ocannl.base.traceback_filtering import public, public_class
from ocannl.infer.shape import Axis, Shape
from ocannl.infer.size_provenance import Reasons


@public_class(exclude=("__init__", "is_solved"))
class TensorShape:
    """Three rows of axes. Reading, printing and comparing finish the inference of all connected tensors; `repr` prints
    the shape inferred so far."""

    __slots__ = ("_cells",)

    def __init__(self, cells: Shape) -> None:
        self._cells = cells

    def __getattr__(self, name: str) -> NoReturn:
        raise spelling.missing(self, name, spelling.SHAPE)

    def __getitem__(self, index: object) -> NoReturn:
        at = f"{index.start or ''}:{index.stop or ''}" if isinstance(index, slice) else repr(index)
        raise ArgumentError(f"a shape has three rows of axes: write t.dims[{at}], or t.shape.output[{at}].size")

    def __len__(self) -> NoReturn:
        raise ArgumentError("a shape has three rows of axes: write len(t.dims), or len(t.shape.output)")

    def __iter__(self) -> NoReturn:
        raise ArgumentError("a shape has three rows of axes: write t.dims for their sizes in memory order")

    __add__ = __radd__ = spelling.refused("a shape has three rows of axes: write t.dims for their sizes, in a tuple")

    def __bool__(self) -> bool:
        return True

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

    @public
    def __eq__(self, value: object) -> bool:
        if isinstance(value, list | tuple | str):
            written = f"str(t.shape) == {value!r}" if isinstance(value, str) else f"t.dims == {tuple(value)}"
            raise ArgumentError(f"a shape has three rows of axes: write {written[:100]}")
        if not isinstance(value, TensorShape):
            return NotImplemented
        return self._rows() == value._rows()

    def __hash__(self) -> int:
        return hash(self._rows())

    def _rows(self) -> tuple[tuple[Axis, ...], ...]:
        return self.batch, self.input, self.output

    def __str__(self) -> str:
        return str(self._cells)

    def __repr__(self) -> str:
        return f"<shape {self.known or 'of no axes'}>"

    def _repr_html_(self) -> str:
        return html_text.badges(self.known)

"""Captured sizes: what a name of a spec turns out to be, to be constrained or used as a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ocannl.base.errors import CodeError
from ocannl.infer.capture import Capture
from ocannl.lang.core.context_vars import checked_label, site
from ocannl.lang.core.operators import REGISTRY, Operators

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


class Dim(Operators):
    """The size of a label, or the product of the sizes of a row variable: `oc.einsum("...|i => ...", x, i=d)`.

    Inside an expression it is a number; `int(d)` finishes inference of what it was captured from.
    """

    __slots__ = ("cell", "name")

    def __init__(self, name: str = "size") -> None:
        self.name = checked_label(name)
        self.cell = Capture(name, site().where)

    def number(self) -> int:
        """The size; finishes inference of what it was captured from."""
        return self.cell.value

    def set(self, size: int) -> Dim:
        """Says that this is the size. Raises: ShapeError when something else is known."""
        self.cell.set(size, site().where)
        return self

    def equal(self, other: Dim) -> Dim:
        """Says that both are the same size."""
        self.cell.equal(_dim(other).cell, site().where)
        return self

    def scale(self, other: Dim, factor: int) -> Dim:
        """Says that this is `factor` times the other."""
        self.cell.scale(_dim(other).cell, factor, site().where)
        return self

    def __int__(self) -> int:  # type: ignore[override]
        return self.number()

    __index__ = __int__  # type: ignore[assignment]

    def __float__(self) -> float:  # type: ignore[override]
        return float(self.number())

    def __floordiv__(self, other: object) -> Tensor:
        return cast("Tensor", REGISTRY["trunc"](self / other))

    def __rfloordiv__(self, other: object) -> Tensor:
        return cast("Tensor", REGISTRY["trunc"](other / self))

    def __repr__(self) -> str:
        return f"<dim {self.name}: {'?' if self.cell.known is None else self.cell.known}>"


def _dim(given: object) -> Dim:
    if not isinstance(given, Dim):
        raise CodeError(f"an oc.Dim is wanted, not {given!r}; a known size is told by `set`")
    return given

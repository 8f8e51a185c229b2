"""Captured sizes: what a name of a spec turns out to be, to be constrained or used as a number."""

from __future__ import annotations

from ocannl.base.errors import ShapeError
from ocannl.infer.capture import Capture
from ocannl.infer.finish import finish_all
from ocannl.lang.operators import Operators


class Dim(Operators):
    """The size of a label, or the product of the sizes of a row variable: `oc.einsum("...|i => ...", x, i=d)`.

    Inside an expression it is a number; `int(d)` finishes inference of what it was captured from.
    """

    __slots__ = ("cell", "name")

    def __init__(self, name: str = "size") -> None:
        self.name = name
        self.cell = Capture(name)

    def number(self) -> int:
        """The size, once inference knows it."""
        if self.cell.known is None and self.cell.is_bound:
            finish_all(self.cell.owners())
        if self.cell.known is None:
            raise ShapeError(f"the size `{self.name}` is not known: capture it in a spec, or set it")
        return self.cell.known

    def __int__(self) -> int:  # type: ignore[override]
        return self.number()

    __index__ = __int__  # type: ignore[assignment]

    def __float__(self) -> float:  # type: ignore[override]
        return float(self.number())

    def __repr__(self) -> str:
        return f"<dim {self.name}: {'?' if self.cell.known is None else self.cell.known}>"

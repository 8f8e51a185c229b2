"""Captured sizes: the inferred size of a name in a spec, which can be constrained or used as a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.infer.capture import Capture
from ocannl.lang.core.context_vars import checked_label, site
from ocannl.lang.core.operators import REGISTRY, Operators

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


@public_class()
class Dim(Operators["Tensor"]):
    """The size of a label, or the product of the sizes of a row variable: `oc.einsum("...|i => ...", x, i=d)`.

    In an expression it is a number; `int(d)` finishes inference of the expression it was captured from.
    """

    __slots__ = ("cell", "name")

    def __init__(self, name: str = "size") -> None:
        self.name = checked_label(name)
        self.cell = Capture(name, site().where)

    def number(self) -> int:
        """The size; finishes inference of the expression it was captured from."""
        return self.cell.value

    def set(self, size: int) -> Dim:
        """Constrains the size to equal `size`. Raises: ShapeError for a contradiction."""
        self.cell.set(size, site().where)
        return self

    def equal(self, other: Dim) -> Dim:
        """Constrains both sizes to be equal."""
        self.cell.equal(_checked_dim(other).cell, site().where)
        return self

    def scale(self, other: Dim, factor: int) -> Dim:
        """Constrains this size to be `factor` times the other."""
        self.cell.scale(_checked_dim(other).cell, factor, site().where)
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


def _checked_dim(value: object) -> Dim:
    if not isinstance(value, Dim):
        raise CodeError(f"expected an oc.Dim, not {value!r}; set a known size with `set`")
    return value

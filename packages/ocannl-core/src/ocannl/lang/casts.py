"""The same numbers in another type."""

from __future__ import annotations

from ocannl.infer.logic import pointwise
from ocannl.ir.assign import Convert
from ocannl.ir.precision import precision
from ocannl.lang.leaves import embed
from ocannl.lang.operation import contraction
from ocannl.lang.operators import REGISTRY
from ocannl.lang.tensor import Tensor, apply
from ocannl.lang.terms import Term


def cast(x: object, dtype: object, *, label: str | None = None) -> Tensor:
    """The values in another type: to a float the nearest there is, from a float to an integer the integral part, to
    bool whether they are not 0. Between integers they wrap; a float that has no place in an integer type gives any.

    Shapes: `...|...->... => ...|...->...`.
    Grad:   what arrives, in the type of `x`; none through integers.
    Raises: DtypeError for what is no data type.
    """
    kind = precision(dtype)

    def converted(v: Term) -> Term:
        return Term(Convert(v.tree, kind))  # type: ignore[arg-type]

    operation = contraction("cast", pointwise(1), converted, None, text=f"{{0}}.astype({kind})", kind=kind)
    return apply(operation, [embed(x)], label=label)


REGISTRY["cast"] = cast

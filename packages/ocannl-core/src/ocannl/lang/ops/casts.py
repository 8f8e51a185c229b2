"""The same numbers in another type."""

from __future__ import annotations

from functools import partial

from ocannl.base.errors import DtypeError
from ocannl.infer.logic import pointwise
from ocannl.ir.assign import Index
from ocannl.ir.ops import Domain, Op
from ocannl.ir.precision import Family, Precision, float32, int32, precision
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import COMPARISONS, Tensor, apply
from ocannl.lang.core.terms import convert


def cast(x: object, dtype: object, *, label: str | None = None) -> Tensor:
    """The values in another type: to a float the nearest there is, from a float to an integer the integral part, to
    bool whether they are not 0. Between integers they wrap; a float that has no place in an integer type gives any.

    Shapes: `...|...->... => ...|...->...`.
    Grad:   what arrives, in the type of `x`; none through integers.
    Raises: DtypeError for what is no data type.
    """
    kind = precision(dtype)
    formula = partial(convert, kind=kind)
    operation = contraction("cast", pointwise(1), formula, None, text=f"{{0}}.astype({kind})", kind=kind)
    return apply(operation, [embed(x)], label=label)


def refuse_loss(lhs: Tensor, accum: Op | None, kind: Precision, value: str) -> None:
    """Refuses to put floats into integers, where their fractions would be lost without a word."""
    into = lhs.typing.known
    if into.family not in (Family.SIGNED, Family.UNSIGNED):
        return
    if accum is not None and accum.domain is Domain.FLOAT:
        kind, value = float32, f"what `{accum}` gives"
    if kind.is_float:
        fix = f"x.astype(oc.{into}) cuts fractions off, x.round().astype(oc.{into}) rounds"
        raise DtypeError(f"`{lhs.label}` is of type {into}, and {value} is of type {kind}: it may lose its fractions"
                         f"\n  fix  say what becomes of them: {fix}")  # fmt: skip


def type_stored(value: Tensor) -> Precision:
    """The type of what is stored: int32 of whole numbers, and of truth values, which are 1 or 0 in a type of floats."""
    if value.literal is not None:
        number = value.literal()
        return int32 if isinstance(number, Index) or float(number.value).is_integer() else value.typing.known
    says = value.application is not None and value.application.operation.name in _TRUTH
    return int32 if says else value.typing.known


_TRUTH = {*COMPARISONS, "and_", "or_", "not_", "isnan", "isinf", "isfinite", "any", "all", "one_hot"}

REGISTRY["cast"] = cast

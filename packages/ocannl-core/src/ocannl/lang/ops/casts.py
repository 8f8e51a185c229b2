"""Conversions between data types."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ocannl.base.errors import DtypeError
from ocannl.infer.logic import pointwise
from ocannl.ir.assign import Index
from ocannl.ir.ops import Domain, Op
from ocannl.ir.precision import Family, Precision, float32, int32, precision
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import convert
from ocannl.lang.core.tensor import COMPARISONS, Tensor, apply


def cast(x: object, dtype: object, *, label: str | None = None) -> Tensor:
    """Converts values to another data type.

    Conversions to floats round to nearest, and to bool compare with 0; integers wrap. Conversions from floats to
    integers truncate and saturate: the result is the nearest number of the type, and 0 for NaN.

    Shapes: `...|...->... => ...|...->...`.
    Grad:   `g`, converted to the type of `x`; none through integers.
    Raises: DtypeError for an unknown data type.
    """
    kind = precision(dtype)
    formula = partial(convert, kind=kind)
    text = f"{{0}}.astype({kind})"
    operation = contraction("cast", pointwise(1), formula, None, text=text, result_type=ResultType(kind))
    return apply(replace(operation, settings={"dtype": kind}), [embed(x)], label=label)


def refuse_loss(lhs: Tensor, accum: Op | None, kind: Precision, value: str) -> None:
    """Rejects implicit conversions of floats to integers. Raises: DtypeError."""
    into = lhs.typing.current
    if into.family not in (Family.SIGNED, Family.UNSIGNED):
        return
    if accum is not None and accum.domain is Domain.FLOAT:
        kind, value = float32, f"the result of `{accum}`"
    if kind.is_float:
        fix = f"x.astype(oc.{into}) truncates, x.round().astype(oc.{into}) rounds"
        raise DtypeError(f"`{lhs.label}` is of type {into}, but {value} is of type {kind}: fractions may be lost"
                         f"\n  fix  choose a conversion: {fix}")  # fmt: skip


def type_stored(value: Tensor) -> Precision:
    """The data type in which a value is stored: int32 for integral literals and for truth values computed as floats."""
    if value.literal is not None:
        number = value.literal()
        return int32 if isinstance(number, Index) or float(number.value).is_integer() else value.typing.current
    is_truth_valued = value.application is not None and value.application.operation.name in _TRUTH_VALUED
    return int32 if is_truth_valued else value.typing.current


_TRUTH_VALUED = {*COMPARISONS, "and_", "or_", "not_", "isnan", "isinf", "isfinite", "any", "all", "one_hot"}

REGISTRY["cast"] = cast

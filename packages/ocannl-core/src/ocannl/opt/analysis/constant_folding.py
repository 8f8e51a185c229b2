"""Exactly representable values of each precision, and constant folding that is the same on every target."""

from __future__ import annotations

from functools import cache
from math import isinf, isnan

import ml_dtypes
import numpy as np

from ocannl.ir.affine import Affine
from ocannl.ir.loops import Const, Expr, IndexValue
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision, promote


def make_const(value: float, precision: Precision) -> Const:
    """Returns the constant with the Python type that its precision requires."""
    return Const(float(value) if precision.is_float else int(value), precision)


def equals_const(expr: Expr, value: float | None) -> bool:
    return isinstance(expr, Const) and expr.value == value


@cache
def max_exact_integer(precision: Precision) -> int:
    """Returns the largest n for which the precision represents all integers from 0 to n exactly."""
    if precision.is_float:
        return int(2 ** (int(ml_dtypes.finfo(precision.numpy).nmant) + 1))  # type: ignore[no-untyped-call]
    return 1 if precision.family is Family.BOOL else int(np.iinfo(precision.numpy).max)


def is_representable(index: Affine, precision: Precision) -> bool:
    """Whether the precision represents every value of the index exactly."""
    if any(s.extent == 0 for s in index.syms):
        return False
    low, high = index.range()
    minimum = -max_exact_integer(precision) if precision.is_float or precision.family is Family.SIGNED else 0
    return low >= minimum and high <= max_exact_integer(precision)


def as_index(expr: Expr) -> Affine | None:
    """Returns the affine index that the expression always equals, or None if there is none."""
    match expr:
        case IndexValue(index, precision) if is_representable(index, precision):
            return index
        case Const(value, precision) if not isinf(value) and not isnan(value) and float(value).is_integer():
            index = Affine((), int(value))
            return index if is_representable(index, precision) else None
        case _:
            return None


def round_to_precision(num: Const) -> float:
    """Returns the constant rounded to its precision."""
    return float(np.asarray(num.value, num.precision.numpy).item())


def evaluate(op: Op, args: tuple[Expr, ...]) -> Const | None:
    """Folds an operation whose operands are constants; None if one is not, or the result is NaN or undefined."""
    values = [a.value for a in args if isinstance(a, Const)]
    if len(values) != len(args):
        return None
    precision = args[-1].precision
    if op.name in ("pow", "mod") and not precision.is_float and values[1] <= 0:
        return None  # undefined or an error in NumPy
    with np.errstate(all="ignore"):
        result = np.asarray(op.numpy(*(np.asarray(v, precision.numpy) for v in values)))
        value = result.astype(precision.numpy).item()
    return None if isnan(value) else make_const(value, precision)


def convert_const(num: Const, precision: Precision) -> Const | None:
    """Converts a constant to another precision; None if targets may disagree on the result."""
    truncates = num.precision.is_float and not precision.is_float and precision.family is not Family.BOOL
    if truncates and (isinf(num.value) or isnan(num.value)):
        return None
    if truncates and not is_representable(Affine((), int(num.value)), precision):
        return None
    with np.errstate(all="ignore"):
        value = np.asarray(num.value, num.precision.numpy).astype(precision.numpy).item()
    return None if isnan(value) else make_const(value, precision)


def is_lossless_conversion(source: Precision, target: Precision) -> bool:
    """Whether `target` represents every value of `source` exactly."""
    if source.is_float or Family.BOOL in (source.family, target.family):
        return promote(source, target) is target
    maximum = int(np.iinfo(source.numpy).max)
    signed = target.is_float or target.family is Family.SIGNED
    return maximum <= max_exact_integer(target) and (signed or source.family is Family.UNSIGNED)

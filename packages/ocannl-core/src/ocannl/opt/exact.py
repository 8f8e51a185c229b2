"""Which numbers exist in which type: what simplification may compute ahead of time."""

from __future__ import annotations

from functools import cache
from math import isinf, isnan

import ml_dtypes
import numpy as np

from ocannl.ir.index import Affine
from ocannl.ir.loops import Expr, Idx, Num
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision, promote


def number(value: float, precision: Precision) -> Num:
    return Num(float(value) if precision.is_float else int(value), precision)


def is_number(expr: Expr, value: float | None) -> bool:
    return isinstance(expr, Num) and expr.value == value


@cache
def largest_whole(precision: Precision) -> int:
    """Up to here every whole number exists in this type."""
    if precision.is_float:
        return int(2 ** (int(ml_dtypes.finfo(precision.numpy).nmant) + 1))  # type: ignore[no-untyped-call]
    return 1 if precision.family is Family.BOOL else int(np.iinfo(precision.numpy).max)


def is_exact(index: Affine, precision: Precision) -> bool:
    """Whether every value of the index exists in this type."""
    if any(s.extent == 0 for s in index.syms):
        return False
    low, high = index.range()
    least = -largest_whole(precision) if precision.is_float or precision.family is Family.SIGNED else 0
    return low >= least and high <= largest_whole(precision)


def index_of(expr: Expr) -> Affine | None:
    """The expression as an index, if that is what it always equals."""
    match expr:
        case Idx(index, precision) if is_exact(index, precision):
            return index
        case Num(value, precision) if not isinf(value) and not isnan(value) and float(value).is_integer():
            index = Affine((), int(value))
            return index if is_exact(index, precision) else None
        case _:
            return None


def rounded(num: Num) -> float:
    """The number that the type makes of it."""
    return float(np.asarray(num.value, num.precision.numpy).item())


def constant(op: Op, args: tuple[Expr, ...]) -> Num | None:
    """The operation carried out, where all operands are numbers and the result is one."""
    values = [a.value for a in args if isinstance(a, Num)]
    if len(values) != len(args):
        return None
    precision = args[-1].precision
    if op.name in ("pow", "mod") and not precision.is_float and values[1] <= 0:
        return None  # NumPy refuses, or makes up a number
    with np.errstate(all="ignore"):
        result = np.asarray(op.numpy(*(np.asarray(v, precision.numpy) for v in values)))
        value = result.astype(precision.numpy).item()
    return None if isnan(value) else number(value, precision)


def converted(num: Num, precision: Precision) -> Num | None:
    """The number in another type, where all targets agree on it."""
    truncates = num.precision.is_float and not precision.is_float and precision.family is not Family.BOOL
    if truncates and (isinf(num.value) or isnan(num.value) or not is_exact(Affine((), int(num.value)), precision)):
        return None
    with np.errstate(all="ignore"):
        value = np.asarray(num.value, num.precision.numpy).astype(precision.numpy).item()
    return None if isnan(value) else number(value, precision)


def widens(source: Precision, target: Precision) -> bool:
    """Whether every value of `source` exists in `target`."""
    if source.is_float or Family.BOOL in (source.family, target.family):
        return promote(source, target) is target
    most = int(np.iinfo(source.numpy).max)
    signed = target.is_float or target.family is Family.SIGNED
    return most <= largest_whole(target) and (signed or source.family is Family.UNSIGNED)

"""The arithmetic of the reference backend: what operations, casts and accumulations mean, exactly, in NumPy.

Narrow floats compute in float32 and round once; truth values compute as small integers. Sums and products of floats
accumulate one size wider than their cells. A cast from a float to an integer truncates; what has no room becomes the
nearest limit, NaN zero.
"""

from __future__ import annotations

from math import copysign, inf
from typing import Any

import numpy as np

from ocannl.ir.ops import AND, OR, POW, Op
from ocannl.ir.precision import Family, Precision, float8_e4m3fn, float32, float64, int64, uint8

Array = np.ndarray[Any, Any]
LARGEST_E4M3 = 448.0


def constant(value: float, precision: Precision) -> Array:
    """A number in a type; where it has no infinities, they are NaN, as in a cast."""
    if precision.family is Family.BOOL:
        return np.asarray(value != 0 and value != -inf)
    if precision.is_float or isinstance(value, int):
        return np.asarray(value).astype(precision.numpy)
    return convert(np.asarray(value, np.float64), precision)


def convert(value: Array, precision: Precision) -> Array:
    """The value of `Cast`."""
    target = precision.numpy
    if value.dtype == target:
        return value
    if precision.family is Family.BOOL:
        return np.asarray(value != np.zeros((), value.dtype))
    if precision.is_float or value.dtype.kind in "biu":
        return np.asarray(value.astype(target))
    wide = np.trunc(np.asarray(value, np.float64))
    info = np.iinfo(target)
    room = np.clip(wide, float(info.min), float(info.max))
    out = np.where(np.isnan(wide), 0.0, room).astype(target)  # limits that float64 rounds up are put right below
    out = np.where(wide >= float(info.max), np.array(info.max, target), out)
    return np.where(wide <= float(info.min), np.array(info.min, target), out)


def compute(op: Op, precision: Precision, args: list[Array]) -> Array:
    """The value of `Apply`: operands and result have one type."""
    if precision.arithmetic is not precision:
        return convert(compute(op, float32, [convert(a, float32) for a in args]), precision)
    if precision.family is Family.BOOL:
        return convert(compute(op, uint8, [convert(a, uint8) for a in args]), precision)
    if op is POW and not precision.is_float:
        return _integer_power(*args)
    out = np.asarray(op.numpy(*args))
    return out if out.dtype == precision.numpy else out.astype(precision.numpy)


def _integer_power(base: Array, exponent: Array) -> Array:
    """Negative exponents truncate toward zero, as integer division does."""
    positive = np.power(base, np.maximum(exponent, np.zeros((), exponent.dtype)))
    if exponent.dtype.kind == "u":
        return np.asarray(positive)
    odd = np.where(exponent % 2 == 0, np.ones((), base.dtype), base)
    inverse = np.where(np.abs(base) == 1, odd, np.zeros((), base.dtype))
    return np.where(exponent < 0, inverse, positive)


# --------------------------------------------------------------------------------------------------------- accumulating


def wider(precision: Precision) -> Precision:
    """The type that cells of this one accumulate in."""
    if precision.is_float:
        return float32 if precision.nbytes < 4 else float64
    return int64 if precision.family is Family.BOOL else precision


def neutral(op: Op, precision: Precision) -> Array:
    """What changes nothing: where the type has no infinities, its limits."""
    assert op.neutral is not None
    if precision is float8_e4m3fn and op.neutral in (inf, -inf):
        return constant(copysign(LARGEST_E4M3, op.neutral), precision)
    return constant(op.neutral, precision)


def reduce(op: Op, values: Array, axes: tuple[int, ...], precision: Precision) -> Array:
    """All values along some axes, which stay with size one, in the wider type of `precision`."""
    assert op.ufunc is not None
    wide = wider(precision)
    if op is AND or op is OR:  # they give truth values
        return convert(np.asarray(op.ufunc.reduce(values, axis=axes, keepdims=True)), wide)
    if precision.arithmetic is not precision:
        values = convert(values, wide)
    return np.asarray(op.ufunc.reduce(values, axis=axes, dtype=wide.numpy, keepdims=True))


def accumulate(op: Op, old: Array, values: Array, precision: Precision) -> Array:
    """Cells meet values given in the wider type."""
    wide = wider(precision)
    return convert(compute(op, wide, [convert(old, wide), values]), precision)


def scatter(op: Op, flat: Array, cells: Array, values: Array, precision: Precision) -> None:
    """Each value meets its cell; a cell may meet several."""
    assert op.ufunc is not None
    wide = wider(precision)
    distinct, which = np.unique(cells, return_inverse=True)
    values = convert(values, wide)
    if op is AND or op is OR:
        values, merge = np.asarray(values != 0, np.uint8), np.minimum if op is AND else np.maximum
        sums = np.asarray(flat[distinct] != np.zeros((), flat.dtype), np.uint8)
        merge.at(sums, which, values)
    else:
        sums = convert(flat[distinct], wide)
        op.ufunc.at(sums, which, values)
    flat[distinct] = convert(sums, precision)

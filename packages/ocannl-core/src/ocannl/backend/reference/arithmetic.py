"""The arithmetic of the reference backend: exact NumPy semantics of operations, casts and accumulations.

Narrow floats compute in float32 and round once; truth values compute as small integers. Reductions of floats accumulate
in the next wider type; those of float64 accumulate in float64, in blocks. A cast from float to integer truncates and
saturates; NaN becomes zero.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from ocannl.ir.ops import ADD, AND, OR, POW, Op
from ocannl.ir.precision import Family, Precision, float32, float64, int64, uint8

Array = np.ndarray[Any, Any]
SUM_BLOCK = 16  # terms that are added one after the other


def constant(value: float, precision: Precision) -> Array:
    """Converts a number to a type; infinities become NaN in types that have none, as in a cast."""
    if precision.family is Family.BOOL:
        return np.asarray(value != 0 and value != -inf)
    if precision.is_float or isinstance(value, int):
        return np.asarray(value).astype(precision.numpy)
    return convert(np.asarray(value, np.float64), precision)


def convert(value: Array, precision: Precision) -> Array:
    """Evaluates `Cast`."""
    target = precision.numpy
    if value.dtype == target:
        return value
    if precision.family is Family.BOOL:
        return np.asarray(value != np.zeros((), value.dtype))
    if precision.is_float or value.dtype.kind in "biu":
        return np.asarray(value.astype(target))
    wide = np.trunc(np.asarray(value, np.float64))
    info = np.iinfo(target)
    saturated = np.clip(wide, float(info.min), float(info.max))
    out = np.where(np.isnan(wide), 0.0, saturated).astype(target)  # limits rounded up by float64 are corrected below
    out = np.where(wide >= float(info.max), np.array(info.max, target), out)
    return np.where(wide <= float(info.min), np.array(info.min, target), out)


def compute(op: Op, precision: Precision, args: list[Array]) -> Array:
    """Evaluates `Apply`; operands and result have the same type."""
    if precision.arithmetic is not precision:
        return convert(compute(op, float32, [convert(a, float32) for a in args]), precision)
    if precision.family is Family.BOOL:
        return convert(compute(op, uint8, [convert(a, uint8) for a in args]), precision)
    if op is POW and not precision.is_float:
        return _integer_power(*args)
    out = np.asarray(op.numpy(*args))
    return out if out.dtype == precision.numpy else out.astype(precision.numpy)


def _integer_power(base: Array, exponent: Array) -> Array:
    """Integer power; a negative exponent truncates toward zero, as integer division does."""
    positive = np.power(base, np.maximum(exponent, np.zeros((), exponent.dtype)))
    if exponent.dtype.kind == "u":
        return np.asarray(positive)
    odd = np.where(exponent % 2 == 0, np.ones((), base.dtype), base)
    inverse = np.where(np.abs(base) == 1, odd, np.zeros((), base.dtype))
    return np.where(exponent < 0, inverse, positive)


# --------------------------------------------------------------------------------------------------------- accumulating


def accumulator_type(precision: Precision) -> Precision:
    """Returns the type in which cells of this type accumulate."""
    if precision.is_float:
        return float32 if precision.nbytes < 4 else float64
    return int64 if precision.family is Family.BOOL else precision


def reduce(op: Op, values: Array, axes: tuple[int, ...], precision: Precision) -> Array:
    """Reduces along axes, which keep size one; the result has the accumulator type of `precision`."""
    assert op.ufunc is not None
    wide = accumulator_type(precision)
    if op is AND or op is OR:  # the results are truth values
        return convert(np.asarray(op.ufunc.reduce(values, axis=axes, keepdims=True)), wide)
    if precision.arithmetic is not precision:
        values = convert(values, wide)
    if op is ADD and wide is precision and precision.is_float:
        return _blocked_sum(values, axes)
    return np.asarray(op.ufunc.reduce(values, axis=axes, dtype=wide.numpy, keepdims=True))


def _blocked_sum(values: Array, axes: tuple[int, ...]) -> Array:
    """Sums blocks, and the sums of these, for types that accumulate in themselves (pairwise summation, Higham 1993);
    NumPy sums pairwise only along contiguous axes."""
    shape = tuple(1 if n in axes else size for n, size in enumerate(values.shape))
    kept = [size for n, size in enumerate(values.shape) if n not in axes]
    count = prod(values.shape[n] for n in axes)
    terms = np.moveaxis(values, axes, range(len(axes))).reshape(count, *kept)
    while len(terms) > SUM_BLOCK:
        full = len(terms) // SUM_BLOCK * SUM_BLOCK
        blocks = terms[:full].reshape(-1, SUM_BLOCK, *terms.shape[1:]).sum(1)
        terms = np.concatenate([blocks, terms[full:].sum(0, keepdims=True)])
    return np.asarray(terms.sum(0)).reshape(shape)


def accumulate(op: Op, old: Array, values: Array, precision: Precision) -> Array:
    """Combines cells with values of the accumulator type."""
    wide = accumulator_type(precision)
    return convert(compute(op, wide, [convert(old, wide), values]), precision)


def scatter(op: Op, flat: Array, cells: Array, values: Array, precision: Precision) -> None:
    """Scatter-reduction: combines each value with its cell; cells may repeat."""
    assert op.ufunc is not None
    wide = accumulator_type(precision)
    distinct, which = np.unique(cells, return_inverse=True)
    values = convert(values, wide)
    if op is AND or op is OR:
        values, merge = np.asarray(values != 0, np.uint8), np.minimum if op is AND else np.maximum
        sums = np.asarray(flat[distinct] != np.zeros((), flat.dtype), np.uint8)
        merge.at(sums, which, values)
    else:
        sums = convert(flat[distinct], wide)
        if op is ADD and wide is precision and precision.is_float:
            which, values = _sums_of_blocks(which.reshape(-1), values.reshape(-1))
        op.ufunc.at(sums, which, values)
    flat[distinct] = convert(sums, precision)


def _sums_of_blocks(cells: Array, values: Array) -> tuple[Array, Array]:
    """Adds the terms of a cell in blocks, and the sums of these, until there is one block for each cell."""
    while True:
        order = np.argsort(cells, kind="stable")
        cells, values = cells[order], values[order]
        block = (np.arange(cells.size) - np.searchsorted(cells, cells)) // SUM_BLOCK
        if not block.any():
            return cells, values
        is_first = np.ones(cells.size, bool)
        is_first[1:] = (cells[1:] != cells[:-1]) | (block[1:] != block[:-1])
        sums = np.zeros(np.count_nonzero(is_first), values.dtype)
        np.add.at(sums, np.cumsum(is_first) - 1, values)
        cells, values = cells[is_first], sums

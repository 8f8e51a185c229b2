"""Edge values, the NumPy results of operations and conversions on them, and tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import isnan
from typing import Any

import numpy as np

from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision, bool_, float32

Array = np.ndarray[Any, Any]

ULPS = {"exp": 2, "exp2": 2, "log": 2, "log2": 2, "sin": 2, "cos": 2, "tanh": 3, "pow": 3, "recip_sqrt": 1,
        "atan": 2, "atan2": 2, "erf": 2, "erfc": 4, "lgamma": 7}  # fmt: skip
"""Tolerance of an operation in units in the last place; all others are exact."""

EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 7.0, -7.5, 0.1, np.inf, -np.inf, np.nan, 1e-3, 100.0, 1e-40, 1e30,
    -1e30, 1 + 2**-7, 1 - 2**-8, 10.25, 87.0, -87.0, 709.0,
)  # fmt: skip
CONVERSION_EDGES = (
    0.49, 1.5, 2.5, -2.5, 100.7, -100.7, 127.9, 128.0, -128.9, -129.0, 255.0, 256.0, 300.0, 65504.0, 65535.0, 65536.0,
    2.0**31 - 128, 2.0**31 - 0.5, 2.0**31, -(2.0**31), -(2.0**31) - 1, 2.0**32, 2.0**53 + 2, 2.0**63 - 2.0**39, 2.0**63,
    -(2.0**63), -(2.0**64), 2.0**64, 1e-320,
)  # fmt: skip


def specials(p: Precision, more: Sequence[float] = ()) -> Array:
    """Edge values of a type, then random ones."""
    random = np.random.default_rng(0)
    if p is bool_:
        return np.array([False, True])
    if p.is_float:
        with np.errstate(all="ignore"):
            return np.array([*EDGES, *more, *random.normal(0, 3, 8)]).astype(p.numpy)
    info = np.iinfo(p.numpy)
    edges = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, 100, 127}
    edges |= {-1, -2, -3, -7} if info.min else {128, 255}
    return np.array([*sorted(edges), *random.integers(info.min, info.max, 6, p.numpy, endpoint=True)], p.numpy)


def operand_values(op: Op, p: Precision) -> list[Array]:
    """Every pair of special values for which the operation is defined."""
    table = specials(p)
    columns = [np.array(c, p.numpy) for c in zip(*product(table, repeat=min(op.arity, 2)), strict=True)]
    columns += [np.resize(np.roll(table[::-1], n), len(columns[0])) for n in range(op.arity - len(columns))]
    if op.name == "pow" and p.family is Family.SIGNED:
        columns[1] = np.abs(columns[1] // 2)  # negative exponents are tested separately
    if op.name == "fma" and p.is_float:
        columns = [np.clip(c.astype(np.float32), -100, 100).astype(p.numpy) for c in columns]
    return columns


def numpy_result(op: Op, p: Precision, *arrays: Array) -> Array:
    """The result of NumPy, computed in the arithmetic type, or in a wider one for inexact operations."""
    kind = np.dtype(np.uint8) if p is bool_ else p.arithmetic.numpy
    if op.name in ULPS and p.is_float:
        kind = np.dtype(np.longdouble if p.arithmetic.nbytes == 8 else np.float64)
    with np.errstate(all="ignore"):
        value = np.asarray(op.numpy(*(a.astype(kind) for a in arrays)))
        return np.asarray(value != 0) if p is bool_ else value.astype(p.numpy)


def allowed(op: Op, p: Precision) -> int:
    """Tolerance of a result in units in the last place."""
    ulps = ULPS.get(op.name, 0) if p.is_float else 0
    return ulps if p.arithmetic is p else min(ulps, 1)


def differences(got: Array, want: Array, ulps: int = 0) -> Array:
    """Positions that differ by more than `ulps`; zeros are equal, and so are all NaN."""
    if want.dtype.kind in "biu":
        return np.flatnonzero(got != want)
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        finite = np.isfinite(got) & np.isfinite(want)
        step = np.spacing(np.abs(want)).astype(np.float64)
        is_close = finite & (np.abs(got.astype(np.float64) - want.astype(np.float64)) <= ulps * step)
    return np.flatnonzero(~(same | is_close))


def agree(label: str, got: Array, want: Array, operands: Sequence[Array] = (), ulps: int = 0) -> None:
    wrong = differences(got.reshape(-1), want.reshape(-1), ulps)
    flat = [x.reshape(-1) for x in operands if x.size == want.size]
    shown = [
        f"{', '.join(str(x[n]) for x in flat) or n}: got {got.flat[n]}, want {want.flat[n]}" for n in wrong[:5].tolist()
    ]
    assert not len(wrong), f"{label}: {len(wrong)} of {want.size} differ: {'; '.join(shown)}"


def agree_fused(label: str, p: Precision, got: Array, operands: Sequence[Array]) -> None:
    """Compares a fused multiply-add, which may round once or twice."""
    x, y, z = (c.astype(np.float64) for c in operands)
    with np.errstate(all="ignore"):
        exact = x * y + z
        size = (np.abs(x * y) + np.abs(z)).astype(p.numpy)
        fine = np.abs(got.astype(np.float64) - exact) <= 2 * np.spacing(size).astype(np.float64)
        fine |= (got.astype(np.float64) == exact) | (np.isnan(exact) & np.isnan(got.astype(np.float64)))
        fine |= np.abs(exact) > float(np.finfo(p.numpy).max if p.nbytes > 2 else 200)
    agree(label, np.where(fine, 0, 1), np.zeros(got.shape, int), operands)


def converted(x: Array, source: Precision, target: Precision) -> Array:
    """The conversion of numbers to another type; integers saturate, and NaN becomes 0."""
    with np.errstate(all="ignore"):
        if target is bool_ or not source.is_float or target.is_float:
            return x.astype(target.numpy)
    info = np.iinfo(target.numpy)
    nearest = [0 if isnan(v) else int(info.min if v < info.min else min(v, info.max)) for v in x.astype(float).tolist()]
    return np.array(nearest, target.numpy)


def agree_signed(label: str, got: Array, want: Array, operands: Array) -> None:
    """Compares numbers and signs, including the signs of zeros."""
    agree(label, got, want, [operands])
    if want.dtype.kind not in "biu":
        number = ~np.isnan(want)
        agree(f"signs of {label}", np.signbit(got)[number], np.signbit(want)[number], [operands[number]])


def narrowed(x: Array, p: Precision) -> tuple[Array, Array]:
    """The numbers rounded directly, and rounded via float32; both are accepted."""
    with np.errstate(all="ignore"):
        return x.astype(p.numpy), x.astype(float32.numpy).astype(p.numpy)

"""Accuracy of functions: sample points, and the error relative to a wider type, in units in the last place (ULP)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ocannl.codegen.formula_ir import Formula
from ocannl.ir.ops import Op

Array = np.ndarray[Any, Any]

EDGES = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 0.5**149, 0.5**127, 0.5**126, -(0.5**149),
    3.4028235e38, -3.4028235e38, 88.72283, 88.72284, -87.33654, -103.97208, -103.97209, 127.99999, 128.0, -126.0,
    -149.0, -149.5, -150.0, -150.00002, 9.010913, 9.01, 9.02, 0.55, 0.54999995, 0.70710677, 0.7071068, 1.4142135,
    1.4142137, 0.99999994, 1.0000001, 3.1415927, 1.5707964, 131071.99, 131072.0, -131072.0, 1e30,
)  # fmt: skip
"""Zeros, infinities, subnormal numbers, and both sides of thresholds: overflow, underflow, change of formula."""
DOUBLE_EDGES = (
    709.782712893384, 709.7827128933841, -745.1332191019411, -745.1332191019412, -708.4, 0.5**1074, 0.5**1022, 1e300,
    -1e300, 1 - 2.0**-53, 1 + 2.0**-52, 0.7071067811865475, 0.7071067811865476, 1.5707963267948966, 3.141592653589793,
    131071.99999999999, 6381956970095103 * 2.0**-37,
)  # fmt: skip
"""Those of float64; the last is close to a multiple of pi / 2."""
WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}


def stated_bound(formula: Formula) -> float:
    """The error bound stated in the docstring of a formula, in ULP."""
    match = re.match(r"Within (\S+) ulp", formula.doc)
    assert match is not None, f"{formula.name} states no bound"
    return float(match[1])


def samples(op: Op, count: int, seed: int = 0, kind: type[np.floating[Any]] = np.float32) -> list[Array]:
    """Operands with uniformly distributed exponents, and operands in [-10, 10)."""
    random = np.random.default_rng(seed)
    length = count // 2 * (np.dtype(kind).itemsize // 4)
    bit_patterns = random.integers(0, 2**32, (op.arity, length), np.uint32).view(kind)
    handy = random.uniform(-10, 10, (op.arity, count - count // 2)).astype(kind)
    return list(np.concatenate([bit_patterns, handy], 1))


def specials(op: Op, kind: type[np.floating[Any]] = np.float32) -> list[Array]:
    """All edge values, or all pairs of them."""
    edges = EDGES if kind is np.float32 else (*EDGES, *DOUBLE_EDGES)
    grid = np.meshgrid(*[np.array(edges, kind)] * op.arity)
    return [np.ascontiguousarray(axis.reshape(-1)) for axis in grid]


def ulp_error(op: Op, got: Array, *operands: Array) -> Array:
    """The error in ULP; infinite if only one is finite, or only one is NaN."""
    with np.errstate(all="ignore"):
        wide = WIDER[operands[0].dtype]
        want = op.numpy(*(x.astype(wide) for x in operands))
        near = want.astype(operands[0].dtype)
        same = (got == near) | (np.isnan(got) & np.isnan(near))
        finite = np.isfinite(got) & np.isfinite(near)
        off = np.abs(got - want) / np.spacing(np.abs(near)).astype(wide)
    return np.where(finite, off, np.where(same, 0.0, np.inf))


def max_ulp_error(op: Op, got: Array, *operands: Array) -> tuple[float, tuple[float, ...]]:
    """The largest error in ULP, and its operands."""
    off = ulp_error(op, got, *operands)
    at = int(off.argmax())
    return float(off[at]), tuple(float(x[at]) for x in operands)

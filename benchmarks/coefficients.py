"""Recomputes the polynomial coefficients of `ocannl.codegen.formulas`.

The polynomials are minimax approximations of the relative error, computed by iteratively reweighted least squares
(Lawson 1961). Coefficients are rounded to float32 one at a time, from the lowest power, and the others refitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
NODES, TURNS = 1001, 150
LN2 = np.log(np.longdouble(2))
HALF = float(LN2) / 2 * 1.01


def nodes(low: float, high: float) -> np.ndarray:
    """Those of Chebyshev."""
    at = np.cos(np.pi * (2 * np.arange(NODES) + 1) / (2 * NODES)).astype(np.longdouble)
    return (low + high) / 2 + (high - low) / 2 * at


def lawson(wanted: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Coefficients for which the largest of the differences is as small as possible."""
    weights, size = np.ones(NODES), np.abs(basis).max(0)
    for _ in range(TURNS):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(basis / size * root[:, None], wanted * root, rcond=None)[0] / size
        weights *= np.abs(wanted - basis @ found)
        weights /= weights.mean()
    return found


def coefficients(
    f: Function, powers: Sequence[int], low: float, high: float, matters: Function, kind: type = np.float32
) -> tuple[list[float], float]:
    """Of the powers of x, so that their sum is f(x); and the largest error divided by what matters."""
    x = nodes(low, high)
    scale, rest, found = matters(x), f(x), []
    for n, power in enumerate(powers):
        basis = np.stack([x**p / scale for p in powers[n:]], 1).astype(np.float64)
        found.append(float(kind(lawson((rest / scale).astype(np.float64), basis)[0])))
        rest = rest - np.longdouble(found[-1]) * x**power
    return found, float(np.abs(rest / scale).max())


def near_zero(f: Function, series: Function, below: float) -> Function:
    """`f`, but for small numbers, where it would lose its digits."""
    return lambda x: np.where(np.abs(x) < below, series(x), f(x))


EXP = near_zero(lambda r: np.expm1(r) - r, lambda r: r**2 / 2 + r**3 / 6 + r**4 / 24, 1e-3)
LOG = near_zero(lambda f: np.log1p(f) - f + f * f / 2, lambda f: f**3 / 3 - f**4 / 4, 1e-4)
SIN = near_zero(lambda r: np.sin(r) - r, lambda r: -(r**3) / 6 + r**5 / 120 - r**7 / 5040, 1e-2)
TANH = near_zero(lambda x: np.tanh(x) - x, lambda x: -(x**3) / 3 + 2 * x**5 / 15 - 17 * x**7 / 315, 2e-2)
ROOTS = (0.5**0.5 - 1, 2**0.5 - 1)
TABLE = {
    "exp": (EXP, range(2, 7), -HALF, HALF, np.exp),
    "exp2": (lambda r: np.expm1(r * LN2), range(1, 7), -0.505, 0.505, np.exp2),
    "log": (LOG, range(3, 11), *ROOTS, np.abs),
    "log2": (lambda f: np.log1p(f) / LN2 - float(np.float32(1 / LN2)) * f, range(2, 11), *ROOTS, np.abs),
    "sin": (SIN, range(3, 11, 2), 1e-6, 1.58, np.sin),
    "tanh": (TANH, range(3, 9, 2), 1e-6, HALF / 2, np.tanh),
    "log2, wide": (lambda f: np.log1p(f) / LN2, range(1, 14), *ROOTS, lambda f: np.log1p(f) / LN2, np.float64),
}

if __name__ == "__main__":
    for name, row in TABLE.items():
        found, off = coefficients(*row)
        print(f"{name:12} off by 2**{np.log2(off):.1f}: {', '.join(map(repr, found))}")

"""Recomputes the polynomial coefficients of `ocannl.codegen.formulas` and of the exact GELU.

The polynomials are minimax approximations of the relative error, computed by iteratively reweighted least squares
(Lawson 1961). Coefficients are rounded to float32 one at a time, from the lowest power, and the others refitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
NODES, ITERATIONS = 1001, 150
LN2 = np.log(np.longdouble(2))
HALF = float(LN2) / 2 * 1.01


def nodes(low: float, high: float) -> np.ndarray:
    """Those of Chebyshev."""
    at = np.cos(np.pi * (2 * np.arange(NODES) + 1) / (2 * NODES)).astype(np.longdouble)
    return (low + high) / 2 + (high - low) / 2 * at


def lawson(wanted: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Coefficients for which the largest of the differences is as small as possible."""
    weights, size = np.ones(NODES), np.abs(basis).max(0)
    for _ in range(ITERATIONS):
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(basis / size * root[:, None], wanted * root, rcond=None)[0] / size
        weights *= np.abs(wanted - basis @ solution)
        weights /= weights.mean()
    return solution


def coefficients(
    f: Function, powers: Sequence[int], low: float, high: float, matters: Function, kind: type = np.float32
) -> tuple[list[float], float]:
    """Of the powers of x, so that their sum is f(x); and the largest error divided by what matters."""
    x = nodes(low, high)
    scale, remainder, chosen = matters(x), f(x), []
    for n, power in enumerate(powers):
        basis = np.stack([x**p / scale for p in powers[n:]], 1).astype(np.float64)
        chosen.append(float(kind(lawson((remainder / scale).astype(np.float64), basis)[0])))
        remainder = remainder - np.longdouble(chosen[-1]) * x**power
    return chosen, float(np.abs(remainder / scale).max())


def near_zero(f: Function, series: Function, below: float) -> Function:
    """`f`, but for small numbers, where it would lose its digits."""
    return lambda x: np.where(np.abs(x) < below, series(x), f(x))


EXP = near_zero(lambda r: np.expm1(r) - r, lambda r: r**2 / 2 + r**3 / 6 + r**4 / 24, 1e-3)
LOG = near_zero(lambda f: np.log1p(f) - f + f * f / 2, lambda f: f**3 / 3 - f**4 / 4, 1e-4)
SIN = near_zero(lambda r: np.sin(r) - r, lambda r: -(r**3) / 6 + r**5 / 120 - r**7 / 5040, 1e-2)
TANH = near_zero(lambda x: np.tanh(x) - x, lambda x: -(x**3) / 3 + 2 * x**5 / 15 - 17 * x**7 / 315, 2e-2)
ROOTS = (0.5**0.5 - 1, 2**0.5 - 1)


def exact(f: Callable[[Any], Any]) -> Function:
    """A function of mpmath on arrays."""
    return lambda x: np.array([np.longdouble(mp.nstr(f(mp.mpf(str(v))), 25)) for v in x])


def size(f: Callable[[Any], Any]) -> Function:
    return lambda x: np.abs(exact(f)(x))


def scaled_erfc(u: Any) -> Any:
    """`(1 + a) exp(a**2) erfc(a)`, for u = 1 / (1 + a) - 1/2."""
    a = 1 / (u + mp.mpf("0.5")) - 1
    return (1 + a) * mp.exp(a * a) * mp.erfc(a)


def scaled_normal_tail(u: Any) -> Any:
    """`(a + 3) exp(a**2 / 2)` times the probability that a standard normal variable exceeds a, for
    u = a / (a + 3) - 1/4."""
    t = u + mp.mpf("0.25")
    a = 3 * t / (1 - t)
    return (a + 3) * mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2


def stirling_remainder(r: Any) -> Any:
    return mp.loggamma(1 / r) - (1 / r - mp.mpf("0.5")) * mp.log(1 / r) + 1 / r - mp.log(2 * mp.pi) / 2


TABLE = {
    "exp": (EXP, range(2, 7), -HALF, HALF, np.exp),
    "exp2": (lambda r: np.expm1(r * LN2), range(1, 7), -0.505, 0.505, np.exp2),
    "log": (LOG, range(3, 11), *ROOTS, np.abs),
    "log2": (lambda f: np.log1p(f) / LN2 - float(np.float32(1 / LN2)) * f, range(2, 11), *ROOTS, np.abs),
    "sin": (SIN, range(3, 11, 2), 1e-6, 1.58, np.sin),
    "tanh": (TANH, range(3, 9, 2), 1e-6, HALF / 2, np.tanh),
    "erf": (exact(lambda x: mp.erf(x) - x), range(1, 13, 2), 1e-6, 1.002, size(mp.erf)),
    "erf, tail": (exact(lambda x: mp.erfc(x) ** 0.25), range(8), 0.999, 3.92,
                  exact(lambda x: mp.erfc(x) ** -0.75 / 4)),
    "erfc": (exact(scaled_erfc), range(13), 1 / 11.5 - 0.5, 0.5, size(scaled_erfc)),
    "gelu": (exact(scaled_normal_tail), range(10), -0.25, 14.5 / 17.5 - 0.25, size(scaled_normal_tail)),
    "atan": (exact(lambda x: mp.atan(x) - x), range(3, 21, 2), 1e-6, 1.0, size(mp.atan)),
    "lgamma, 0 to 0.7": (exact(lambda x: mp.loggamma(1 + x)), range(1, 9), 1e-5, 0.7, size(mp.loggamma)),
    "lgamma, 0.7 to 1.5": (exact(lambda x: mp.loggamma(1 + x)), range(1, 12), -0.3, 0.5,
                           size(lambda x: mp.loggamma(1 + x))),
    "lgamma, 1.5 to 3": (exact(lambda x: mp.loggamma(2 + x)), range(1, 11), -0.5, 1.0,
                         size(lambda x: mp.loggamma(2 + x))),
    "lgamma, 3 to 8": (exact(lambda x: mp.loggamma(3 + x)), range(11), 0.0, 5.0, size(lambda x: mp.loggamma(3 + x))),
    "lgamma, from 8": (exact(stirling_remainder), (1, 3), 1e-6, 0.125, size(lambda r: mp.loggamma(1 / r))),
    "log2, wide": (lambda f: np.log1p(f) / LN2, range(1, 14), *ROOTS, lambda f: np.log1p(f) / LN2, np.float64),
}  # fmt: skip

if __name__ == "__main__":
    mp.mp.dps = 40
    for name, row in TABLE.items():
        found, off = coefficients(*row)
        print(f"{name:18} off by 2**{np.log2(off):.1f}: {', '.join(map(repr, found))}")

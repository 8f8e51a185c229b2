"""Special functions, roots and logarithms by formulas over primitives."""

from __future__ import annotations

import math

from ocannl.ir.precision import float64
from ocannl.lang.core import gamma_formulas
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.term_functions import (
    absolute,
    eq,
    exp,
    log,
    maximum,
    minimum,
    polynomial,
    precision_of,
    sqrt,
    where,
    with_sign_of,
)
from ocannl.lang.ops.elementwise_decorator import formula

LOG10_E = 1.0 / math.log(10.0)


@formula(lambda g, v, x: g * (LOG10_E / x))
def log10(x: Term) -> Term:
    """The logarithm to base 10.

    Grad:   `g / (x * log(10))`.
    """
    return log(x) * LOG10_E


@formula(lambda g, v, x: g / (3.0 * (v * v)))
def cbrt(x: Term) -> Term:
    """The cube root, also of negative numbers.

    Grad:   `g / (3 * v**2)`.
    """
    magnitude = absolute(x)
    root = term("exp2", term("log2", magnitude) * (1.0 / 3.0))
    newton = root - (root - magnitude / (root * root)) * (1.0 / 3.0)
    return where(eq(magnitude, 0.0) | eq(magnitude, math.inf), x, with_sign_of(x, newton))


# --- probabilities ---------------------------------------------------------------------------------------------------


def _limited(x: Term, eps: float | None) -> Term:
    return x if eps is None else minimum(maximum(x, eps), 1.0 - eps)


def _logit_slope(g: Term, v: Term, x: Term, *, eps: float | None = None) -> Term:
    low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1.0 - eps, 0.0)
    return where((x >= low) & (x <= high), g / (x * (1.0 - x)), outside)


@formula(_logit_slope)
def logit(x: Term, *, eps: float | None = None) -> Term:
    """`log(x / (1 - x))`, the inverse of the sigmoid; `eps` limits the argument to [eps, 1 - eps].

    Grad:   `g / (x * (1 - x))`; outside the limits 0, without `eps` NaN outside [0, 1].
    """
    x = _limited(x, eps)
    reciprocal = 1.0 / (1.0 - x)
    odds = x * reciprocal
    rounding_error = (2.0 * x - 1.0) * reciprocal - (odds - 1.0)
    correction = rounding_error * (2.0 - odds)  # 2 - odds approximates 1 / odds near 1
    return log(odds) + where(absolute(x - 0.5) < 0.25, correction, 0.0)


_ERFINV_CENTRAL = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
    3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
_ERFINV_TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
    0.000100950558, -0.000200214257,
)  # fmt: skip


def _erfinv_in_float32(x: Term) -> Term:
    """For x in [0, 1]. Source: Giles, Approximating the erfinv function, 2011."""
    w = -log((1.0 - x) * (1.0 + x))
    central = polynomial(w - 2.5, _ERFINV_CENTRAL)
    return x * where(w < 5.0, central, polynomial(sqrt(w) - 3.0, _ERFINV_TAIL))


_ERFINV_SERIES = (1.0, math.pi / 12, 7 * math.pi**2 / 480, 127 * math.pi**3 / 40320)
_WINITZKI = 0.147


def _rough_erfinv(x: Term) -> Term:
    """Three digits, for x in [0, 1]. Source: Winitzki 2008."""
    logarithm = log((1.0 - x) * (1.0 + x))
    shifted = 2.0 / (math.pi * _WINITZKI) + 0.5 * logarithm
    tail = sqrt(sqrt(shifted * shifted - logarithm * (1.0 / _WINITZKI)) - shifted)
    return where(x < 0.5, 0.5 * math.sqrt(math.pi) * x * polynomial(x * x, _ERFINV_SERIES), tail)


def _refined(y: Term, x: Term) -> Term:
    """One step of Halley's method from y towards the inverse of x, in [0, 1]; it triples the number of digits."""
    excess = where(x < 0.5, term("erf", y) - x, (1.0 - x) - term("erfc", y))
    step = excess * (0.5 * math.sqrt(math.pi)) / exp(-(y * y))
    return where(eq(x, 1.0), math.inf, y - step / (1.0 + y * step))


def _erfinv_slope(g: Term, v: Term, x: Term) -> Term:
    """The derivative amplifies the error of `v`, which is refined before."""
    magnitude = absolute(v)
    y = magnitude if precision_of(x) is float64 else _refined(magnitude, absolute(x))
    return g * (0.5 * math.sqrt(math.pi) * exp(y * y))


@formula(_erfinv_slope)
def erfinv(x: Term) -> Term:
    """The inverse of the error function; NaN outside [-1, 1], infinite at the ends.

    Grad:   `g * sqrt(pi) / 2 * exp(v**2)`.
    """
    magnitude = absolute(x)
    if precision_of(x) is float64:
        return with_sign_of(x, _refined(_refined(_rough_erfinv(magnitude), magnitude), magnitude))
    return with_sign_of(x, where(eq(magnitude, 1.0), math.inf, _erfinv_in_float32(magnitude)))


# --- gamma function --------------------------------------------------------------------------------------------------


@formula(lambda g, v, x: g * gamma_formulas.trigamma(x))
def digamma(x: Term) -> Term:
    """The derivative of `lgamma`, computed in float64; NaN at negative integers.

    Grad:   `g` times the second derivative of `lgamma`.
    Source: Abramowitz, Stegun 1964, section 6.3.
    """
    return gamma_formulas.digamma(x)

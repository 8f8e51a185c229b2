"""Special functions, roots and logarithms by formulas over primitives."""

from __future__ import annotations

import math

from ocannl.lang.core import gamma_formulas
from ocannl.lang.core.symbolic_terms import Term, apply
from ocannl.lang.core.term_functions import (
    absolute,
    eq,
    exp,
    log,
    log1p,
    maximum,
    minimum,
    polynomial,
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
    root = apply("exp2", apply("log2", magnitude) * (1.0 / 3.0))
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
    is_central = absolute(x - 0.5) < 0.25
    return where(is_central, log1p((2.0 * x - 1.0) / (1.0 - x)), log(x / (1.0 - x)))


_ERFINV_SERIES = (1.0, math.pi / 12, 7 * math.pi**2 / 480, 127 * math.pi**3 / 40320)
_WINITZKI = 0.147
_HALLEY_STEPS = 2


def _erfinv_of_magnitude(x: Term) -> Term:
    """An approximation to three digits, which Halley's method refines. Source: Winitzki 2008."""
    is_central = x < 0.5
    logarithm = log((1.0 - x) * (1.0 + x))
    term = 2.0 / (math.pi * _WINITZKI) + 0.5 * logarithm
    tail = sqrt(sqrt(term * term - logarithm * (1.0 / _WINITZKI)) - term)
    y = where(is_central, 0.5 * math.sqrt(math.pi) * x * polynomial(x * x, _ERFINV_SERIES), tail)
    for _ in range(_HALLEY_STEPS):
        excess = where(is_central, apply("erf", y) - x, (1.0 - x) - apply("erfc", y))
        step = excess * (0.5 * math.sqrt(math.pi)) / exp(-(y * y))
        y = y - step / (1.0 + y * step)
    return where(eq(x, 1.0), math.inf, y)


@formula(lambda g, v, x: g * (0.5 * math.sqrt(math.pi) * exp(v * v)))
def erfinv(x: Term) -> Term:
    """The inverse of the error function; NaN outside [-1, 1], infinite at the ends.

    Grad:   `g * sqrt(pi) / 2 * exp(v**2)`.
    """
    return with_sign_of(x, _erfinv_of_magnitude(absolute(x)))


# --- gamma function --------------------------------------------------------------------------------------------------


@formula(lambda g, v, x: g * gamma_formulas.trigamma(x))
def digamma(x: Term) -> Term:
    """The derivative of `lgamma`, computed in float64; NaN at negative integers.

    Grad:   `g` times the second derivative of `lgamma`.
    Source: Abramowitz, Stegun 1964, section 6.3.
    """
    return gamma_formulas.digamma(x)

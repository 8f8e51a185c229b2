"""Trigonometric and hyperbolic functions, and their inverses, by formulas over primitives."""

from __future__ import annotations

import math

from ocannl.lang.core.symbolic_terms import Term, apply
from ocannl.lang.core.term_functions import (
    absolute,
    eq,
    exp,
    expm1,
    fraction_of,
    log1p,
    maximum,
    minimum,
    polynomial,
    sqrt,
    trunc,
    where,
    with_sign_of,
)
from ocannl.lang.ops.elementwise_decorator import formula

LN2 = math.log(2.0)
LARGE = 1e8  # the square of a larger number plus 1 is the square
MAX_EXPONENT = 88.0  # exp of it is finite in float32


# --- angles ----------------------------------------------------------------------------------------------------------


@formula(lambda g, v, x: g * (1.0 + v * v))
def tan(x: Term) -> Term:
    """The tangent, of radians.

    Grad:   `g * (1 + v**2)`.
    """
    return apply("sin", x) / apply("cos", x)


def _cosine_of_asin(x: Term) -> Term:
    """`sqrt(1 - x**2)`, accurate where `abs(x)` is close to 1."""
    return sqrt((1.0 - x) * (1.0 + x))


@formula(lambda g, v, x: g / _cosine_of_asin(x))
def asin(x: Term) -> Term:
    """The inverse sine, in radians; NaN outside [-1, 1].

    Grad:   `g / sqrt(1 - x**2)`.
    """
    return apply("atan2", x, _cosine_of_asin(x))


@formula(lambda g, v, x: -(g / _cosine_of_asin(x)))
def acos(x: Term) -> Term:
    """The inverse cosine, in radians; NaN outside [-1, 1].

    Grad:   `-g / sqrt(1 - x**2)`.
    """
    return apply("atan2", _cosine_of_asin(x), x)


@formula()
def degrees(x: Term) -> Term:
    """An angle in degrees, from radians.

    Grad:   `g * (180 / pi)`.
    """
    return x * (180.0 / math.pi)


@formula()
def radians(x: Term) -> Term:
    """An angle in radians, from degrees.

    Grad:   `g * (pi / 180)`.
    """
    return x * (math.pi / 180.0)


def _hypot_slope(g: Term, v: Term, x: Term) -> Term:
    return where(eq(v, 0.0), 0.0, g * (x / v))


@formula(lambda g, v, x, y: _hypot_slope(g, v, x), lambda g, v, x, y: _hypot_slope(g, v, y))
def hypot(x: Term, y: Term) -> Term:
    """`sqrt(x**2 + y**2)`, computed without overflow; infinite if either is.

    Grad:   to `x` `g * x / v`; to `y` `g * y / v`; 0 at the origin.
    Raises: ShapeError.
    """
    width, height = absolute(x), absolute(y)
    longer = maximum(width, height)
    ratio = where(eq(longer, 0.0), 0.0, minimum(width, height) / longer)
    is_infinite = eq(width, math.inf) | eq(height, math.inf)
    return where(is_infinite, math.inf, longer * sqrt(1.0 + ratio * ratio))


def _sign_of_half_turns(x: Term, fraction: Term) -> Term:
    """`cos(pi n)` for the integer n next to `x`."""
    half = 0.5 * (x - fraction)
    return where(eq(half, trunc(half)), 1.0, -1.0)


_SINC_SLOPE = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) * math.pi ** (2 * k) for k in range(1, 12)]


def _sinc_slope(g: Term, v: Term, x: Term) -> Term:
    """The derivative of sinc: a series near zero, where the terms of the quotient cancel."""
    fraction = fraction_of(x)
    cosine = _sign_of_half_turns(x, fraction) * apply("cos", math.pi * fraction)
    return g * where(absolute(x) < 0.5, x * polynomial(x * x, _SINC_SLOPE), (cosine - v) / x)


@formula(_sinc_slope)
def sinc(x: Term) -> Term:
    """`sin(pi x) / (pi x)`, and 1 at zero. Zero at all other integers.

    Grad:   `g * (cos(pi x) - v) / x`.
    """
    fraction = fraction_of(x)
    sine = _sign_of_half_turns(x, fraction) * apply("sin", math.pi * fraction)
    return where(eq(x, 0.0), 1.0, sine / (math.pi * x))


# --- hyperbolic functions --------------------------------------------------------------------------------------------


def _sinh(x: Term) -> Term:
    magnitude = absolute(x)
    e = expm1(magnitude)
    root = exp(0.5 * magnitude)
    return with_sign_of(x, where(magnitude > MAX_EXPONENT, (0.5 * root) * root, 0.5 * (e + e / (e + 1.0))))


def _cosh(x: Term) -> Term:
    magnitude = absolute(x)
    e = exp(magnitude)
    root = exp(0.5 * magnitude)
    return where(magnitude > MAX_EXPONENT, (0.5 * root) * root, 0.5 * e + 0.5 / e)


@formula(lambda g, v, x: g * _cosh(x))
def sinh(x: Term) -> Term:
    """The hyperbolic sine.

    Grad:   `g * cosh(x)`.
    """
    return _sinh(x)


@formula(lambda g, v, x: g * _sinh(x))
def cosh(x: Term) -> Term:
    """The hyperbolic cosine.

    Grad:   `g * sinh(x)`.
    """
    return _cosh(x)


def _asinh_slope(g: Term, v: Term, x: Term) -> Term:
    magnitude = absolute(x)
    return g / where(magnitude > LARGE, magnitude, sqrt(x * x + 1.0))


@formula(_asinh_slope)
def asinh(x: Term) -> Term:
    """The inverse hyperbolic sine.

    Grad:   `g / sqrt(x**2 + 1)`.
    """
    a = absolute(x)
    is_large = a > LARGE
    argument = where(is_large, a - 1.0, a + a * a / (1.0 + sqrt(a * a + 1.0)))
    return with_sign_of(x, log1p(argument) + where(is_large, LN2, 0.0))


@formula(lambda g, v, x: g / (sqrt(x - 1.0) * sqrt(x + 1.0)))
def acosh(x: Term) -> Term:
    """The inverse hyperbolic cosine; NaN below 1.

    Grad:   `g / sqrt(x**2 - 1)`.
    """
    t = x - 1.0
    is_large = x > LARGE
    return log1p(where(is_large, t, t + sqrt(t * (t + 2.0)))) + where(is_large, LN2, 0.0)


@formula(lambda g, v, x: g / ((1.0 - x) * (1.0 + x)))
def atanh(x: Term) -> Term:
    """The inverse hyperbolic tangent; NaN outside [-1, 1], infinite at the ends.

    Grad:   `g / (1 - x**2)`.
    """
    a = absolute(x)
    return with_sign_of(x, 0.5 * log1p(2.0 * a / (1.0 - a)))

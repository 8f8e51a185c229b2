"""Arithmetic, comparisons and signs by formulas over primitives."""

from __future__ import annotations

import math

from ocannl.ir.ops import Domain
from ocannl.ir.precision import largest_finite
from ocannl.lang.core.symbolic_terms import Term, apply
from ocannl.lang.core.term_functions import absolute, eq, ne, precision_of, where
from ocannl.lang.ops.elementwise_decorator import formula


@formula(lambda g, v, x: g * (x + x), domain=Domain.ANY)
def square(x: Term) -> Term:
    """The value times itself.

    Grad:   `2 * g * x`.
    """
    return x * x


@formula(
    lambda g, v, x, y, weight: g * (1.0 - weight),
    lambda g, v, x, y, weight: g * weight,
    lambda g, v, x, y, weight: g * (y - x),
)
def lerp(x: Term, y: Term, weight: Term) -> Term:
    """Linear interpolation: `x + weight * (y - x)`, which is exactly `y` where `weight` is 1.

    Grad:   to `x` `g * (1 - weight)`; to `y` `g * weight`; to `weight` `g * (y - x)`.
    Raises: ShapeError.
    """
    return where(weight < 0.5, x + weight * (y - x), y - (1.0 - weight) * (y - x))


@formula(lambda g, v, x, y: g, lambda g, v, x, y: -(g * ((x - v) / y)), domain=Domain.ANY)
def fmod(x: Term, y: Term) -> Term:
    """The remainder of the quotient that is rounded towards 0: it has the sign of `x`, unlike that of `x % y`.

    Grad:   to `x` `g`; to `y` `-g * trunc(x / y)`.
    Raises: ShapeError.
    """
    return apply("mod", x, where(ne(x < 0, y < 0), -y, y))


# --- comparisons -----------------------------------------------------------------------------------------------------


@formula(domain=Domain.ANY, differentiable=False)
def logical_xor(x: Term, y: Term) -> Term:
    """1 where exactly one of the two is nonzero, else 0.

    Grad:   none.
    Raises: ShapeError.
    """
    return ne(ne(x, 0), ne(y, 0))


@formula(differentiable=False)
def isclose(x: Term, y: Term, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Term:
    """1 where `abs(x - y) <= atol + rtol * abs(y)` or both are equal, else 0. With `equal_nan`, NaN equals NaN.

    Grad:   none.
    Raises: ShapeError.
    """
    is_close = (absolute(x - y) <= atol + rtol * absolute(y)) & (absolute(y) < math.inf)
    result = eq(x, y) | is_close
    return result | (ne(x, x) & ne(y, y)) if equal_nan else result


# --- signs -----------------------------------------------------------------------------------------------------------


def _has_sign_bit(x: Term) -> Term:
    """Whether a number, including zero, is negative."""
    return (x < 0.0) | (apply("recip", x) < 0.0)


@formula(differentiable=False)
def signbit(x: Term) -> Term:
    """1 where the value is negative, also for negative zero, else 0; 0 for NaN.

    Grad:   none.
    """
    return where(_has_sign_bit(x), 1.0, 0.0)


@formula(lambda g, v, x, y: where(eq(x, 0.0), 0.0, where(eq(v, x), g, -g)), lambda g, v, x, y: g * 0.0)
def copysign(x: Term, y: Term) -> Term:
    """The absolute value of `x`, with the sign of `y`, which may be a zero.

    Grad:   to `x` `g` where the sign remains, `-g` where it changes, 0 at 0; to `y` 0.
    Raises: ShapeError.
    """
    magnitude = absolute(x)
    return where(_has_sign_bit(y), -magnitude, magnitude)


@formula(domain=Domain.ANY, differentiable=False)
def heaviside(x: Term, value: Term) -> Term:
    """0 where `x` is negative, 1 where it is positive, and `value` where it is 0; NaN is preserved.

    Grad:   none.
    Raises: ShapeError.
    """
    return where(x > 0, 1, where(x < 0, 0, where(eq(x, 0), value, x)))


# --- exceptional values ----------------------------------------------------------------------------------------------


def _is_finite(x: Term) -> Term:
    return eq(x - x, 0.0)


@formula(lambda g, v, x, nan=0.0, posinf=None, neginf=None: where(_is_finite(x), g, 0.0))
def nan_to_num(x: Term, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Term:
    """The value with NaN replaced by `nan`, and the infinities by `posinf` and `neginf`: by default, the largest and
    the smallest finite number of the type. Integers have neither, and are not replaced.

    Grad:   `g` where the value is finite, else 0.
    """
    if not precision_of(x).is_float:
        return x
    largest = largest_finite(precision_of(x))
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    return where(ne(x, x), nan, where(eq(x, math.inf), high, where(eq(x, -math.inf), low, x)))

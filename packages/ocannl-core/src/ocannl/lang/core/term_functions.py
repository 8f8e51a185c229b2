"""Functions of terms that formulas of operations and derivatives share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ocannl.ir.precision import Precision, float32, float64
from ocannl.lang.core.symbolic_terms import Term, apply, holes


def precision_of(x: Term) -> Precision:
    """The type of the first tensor in a formula."""
    return next((hole.node.precision for hole in holes(x.tree)), float32)


def where(condition: object, yes: object, no: object) -> Term:
    return apply("where", condition, yes, no)


def eq(x: object, y: object) -> Term:
    return apply("eq", x, y)


def ne(x: object, y: object) -> Term:
    return apply("ne", x, y)


def absolute(x: Term) -> Term:
    return apply("abs", x)


def minimum(x: object, y: object) -> Term:
    return apply("min", x, y)


def maximum(x: object, y: object) -> Term:
    return apply("max", x, y)


def fma(x: object, y: object, z: object) -> Term:
    return apply("fma", x, y, z)


def exp(x: Term) -> Term:
    return apply("exp", x)


def log(x: Term) -> Term:
    return apply("log", x)


def sqrt(x: Term) -> Term:
    return apply("sqrt", x)


def trunc(x: Term) -> Term:
    return apply("trunc", x)


def with_sign_of(x: Term, magnitude: Term) -> Term:
    """An odd function, from its value at `abs(x)`."""
    return where(x < 0.0, -magnitude, magnitude)


def sigmoid(x: Term) -> Term:
    return apply("recip", 1.0 + exp(-x))


def log1p(x: Term) -> Term:
    """`log(1 + x)`; the quotient compensates the rounding error of `1 + x`. Source: Kahan, Pracniques 1979."""
    u = 1.0 + x
    return where(eq(u, 1.0), x, where(eq(u, x), log(u), log(u) * (x / (u - 1.0))))


def expm1(x: Term) -> Term:
    """`exp(x) - 1`: by the Taylor polynomial below 1/2, above which the difference loses one bit at most."""
    terms = 16 if precision_of(x) is float64 else 9  # the next is below a quarter of an ulp
    near = x * polynomial(x, [1 / math.factorial(n) for n in range(1, terms + 1)])
    return where(absolute(x) < 0.5, near, exp(x) - 1.0)


def exp_of_minus_square(x: Term) -> Term:
    """`exp(-x**2)`. The exponent is split, so that its rounding error does not grow with `x`: the square of a multiple
    of 1/16 is exact."""
    x = minimum(absolute(x), 40.0)  # the result is zero above
    high = trunc(x * 16.0) * 0.0625
    return exp(-(high * high)) * exp((high - x) * (high + x))


def fraction_of(x: Term) -> Term:
    """The difference from the nearest integer, which is exact."""
    remainder = x - trunc(x)
    return remainder - trunc(remainder + remainder)


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Evaluates a polynomial by Horner's scheme; coefficients are in order of increasing powers."""
    *lower, leading = coefficients
    value: Term | float = leading
    for coefficient in reversed(lower):
        value = fma(x, value, coefficient)
    assert isinstance(value, Term)
    return value

"""digamma and trigamma, the derivatives of the logarithm of the gamma function, as formulas computed in float64.

Where x < 10, recurrences lead to the asymptotic series at x + 10; negative arguments are reflected. Source: Abramowitz,
Stegun 1964, sections 6.3 and 6.4.
"""

from __future__ import annotations

import math

from ocannl.ir.precision import float64
from ocannl.lang.core.symbolic_terms import Term, apply, convert
from ocannl.lang.core.term_functions import eq, fraction_of, log, polynomial, where

SHIFT = 10
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B2, B4, ..., B14


def digamma(x: Term) -> Term:
    x = convert(x, float64)
    fraction = fraction_of(x)
    positive = _digamma_of_positive(where(x < 0.0, 1.0 - x, x))
    angle = math.pi * fraction
    reflected = positive - math.pi * (apply("cos", angle) / apply("sin", angle))
    of_negative = where(eq(fraction, 0.0), math.nan, reflected)
    return where(x < 0.0, of_negative, positive)


def trigamma(x: Term) -> Term:
    x = convert(x, float64)
    positive = _trigamma_of_positive(where(x < 0.0, 1.0 - x, x))
    ratio = math.pi / apply("sin", math.pi * fraction_of(x))
    return where(x < 0.0, ratio * ratio - positive, positive)


def _digamma_of_positive(x: Term) -> Term:
    """The terms 1 / (x + k) of the recurrence for k and 9 - k are added to a single fraction."""
    last = SHIFT - 1
    product = x * (x + float(last))
    fractions = sum((1.0 / (product + float(k * (last - k))) for k in range(1, SHIFT // 2)), 1.0 / product)
    y = where(x < float(SHIFT), x + float(SHIFT), x)
    square = 1.0 / (y * y)
    series = square * polynomial(square, [b / (2 * n) for n, b in enumerate(BERNOULLI, 1)])
    large = log(y) - 0.5 / y - series
    return where(x < float(SHIFT), large - (x + x + float(last)) * fractions, large)


def _trigamma_of_positive(x: Term) -> Term:
    fractions = [1.0 / (x + float(k)) for k in range(SHIFT)]
    squares = sum((fraction * fraction for fraction in fractions[1:]), fractions[0] * fractions[0])
    y = where(x < float(SHIFT), x + float(SHIFT), x)
    inverse = 1.0 / y
    square = inverse * inverse
    large = inverse + 0.5 * square + inverse * square * polynomial(square, BERNOULLI)
    return where(x < float(SHIFT), large + squares, large)

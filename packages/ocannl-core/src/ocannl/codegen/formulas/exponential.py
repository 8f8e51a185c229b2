"""exp and exp2: argument reduction to a power of two times a polynomial of the remainder."""

from __future__ import annotations

from ocannl.codegen.formula_ir import ROUND_MAGIC, Formula, TracedValue, fma, formula, polynomial, scale, where

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.4286068203094172e-06  # Cody-Waite: multiples of LN2_HIGH (16 bits) are exact

EXP_COEFFICIENTS = (
    1.0, 1.0, 0.4999999403953552, 0.16666516661643982, 0.04166828468441963, 0.00836925022304058,
    0.0013820468448102474,
)  # fmt: skip
"""Minimax coefficients of e**r for |r| <= ln(2) / 2, with error 2**-28."""
EXP2_COEFFICIENTS = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550358071923256, 0.009618503972887993, 0.0013391892425715923,
    0.00015328881272580475,
)  # fmt: skip
"""Minimax coefficients of 2**r for |r| <= 1/2, with error 2**-28."""


def exp(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    x = n ln 2 + r with |r| <= ln(2) / 2; e**r is a polynomial of degree 6 with error 2**-28.
    """
    is_zero = x < -104.0
    x = _reduced_range(x, is_zero, 89.0)
    n = fma(x, LOG2_E, ROUND_MAGIC) - ROUND_MAGIC
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return where(is_zero, 0.0, scale(polynomial(r, *EXP_COEFFICIENTS), n))


def exp2(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    x = n + r with |r| <= 1/2; 2**r is a polynomial of degree 6 with error 2**-28.
    """
    is_zero = x < -151.0
    x = _reduced_range(x, is_zero, 129.0)
    n = x + ROUND_MAGIC - ROUND_MAGIC
    return where(is_zero, 0.0, scale(polynomial(x - n, *EXP2_COEFFICIENTS), n))


def _reduced_range(x: TracedValue, is_zero: TracedValue, high: float) -> TracedValue:
    """Clamps from above where the result is infinite, and returns 0 where it is zero, as for the masked scores of
    attention: processors take a hundred cycles for a multiplication that underflows. NaN is preserved."""
    return where(is_zero, 0.0, x.apply("min", x, high))


EXP: Formula = formula(exp)
EXP2: Formula = formula(exp2)

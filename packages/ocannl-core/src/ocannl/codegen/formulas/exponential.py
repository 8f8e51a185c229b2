"""exp and exp2: argument reduction to a power of two times a polynomial of the remainder."""

from __future__ import annotations

from ocannl.codegen.formula_ir import ROUND_MAGIC, Formula, TracedValue, clip, fma, formula, polynomial, scale

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
    x = clip(x, -104.0, 89.0)  # the result is zero or infinity outside
    n = fma(x, LOG2_E, ROUND_MAGIC) - ROUND_MAGIC
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return scale(polynomial(r, *EXP_COEFFICIENTS), n)


def exp2(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    x = n + r with |r| <= 1/2; 2**r is a polynomial of degree 6 with error 2**-28.
    """
    x = clip(x, -151.0, 129.0)
    n = x + ROUND_MAGIC - ROUND_MAGIC
    return scale(polynomial(x - n, *EXP2_COEFFICIENTS), n)


EXP: Formula = formula(exp)
EXP2: Formula = formula(exp2)

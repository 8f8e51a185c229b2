"""exp and exp2: a whole power of two, times a polynomial of what is left over."""

from __future__ import annotations

from ocannl.codegen.formula import ROUND, Formula, Value, clip, fma, formula, polynomial, scale

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.4286068203094172e-06  # the first has 16 bits: its multiples are exact

POWER = (
    1.0, 1.0, 0.4999999403953552, 0.16666516661643982, 0.04166828468441963, 0.00836925022304058,
    0.0013820468448102474,
)  # fmt: skip
"""Of e**r for |r| <= ln(2) / 2, off by 2**-28."""
POWER_OF_TWO = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550358071923256, 0.009618503972887993, 0.0013391892425715923,
    0.00015328881272580475,
)  # fmt: skip
"""Of 2**r for |r| <= 1/2, off by 2**-28."""


def exp(x: Value) -> Value:
    """Within 2 ulp.

    x = n ln 2 + r with |r| <= ln(2) / 2; e**r is a polynomial of degree 6, off by 2**-28.
    """
    x = clip(x, -104.0, 89.0)  # beyond lie zero and infinity
    n = fma(x, LOG2_E, ROUND) - ROUND
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return scale(polynomial(r, *POWER), n)


def exp2(x: Value) -> Value:
    """Within 2 ulp.

    x = n + r with |r| <= 1/2; 2**r is a polynomial of degree 6, off by 2**-28.
    """
    x = clip(x, -151.0, 129.0)
    n = x + ROUND - ROUND
    return scale(polynomial(x - n, *POWER_OF_TWO), n)


EXP: Formula = formula(exp)
EXP2: Formula = formula(exp2)

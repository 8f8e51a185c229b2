"""exp and exp2: a whole power of two, times a polynomial of what is left over."""

from __future__ import annotations

from ocannl.codegen.formula import Formula, Value, clip, fma, formula, polynomial
from ocannl.ir.precision import float32, uint32

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.4286068203094172e-06  # the first has 16 bits: its multiples are exact
ROUND = 1.5 * 2**23
TWICE = ROUND + 254  # its last bits are twice the bias of exponents


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
    sum_, r = reduced(x, 1.0, TWICE)
    return scaled(polynomial(r, *POWER), sum_)


def reduced(x: Value, times: float, bias: float) -> tuple[Value, Value]:
    """`bias + n` and r such that times * x = n ln 2 + r."""
    sum_ = fma(x, times * LOG2_E, bias)
    n = sum_ - bias
    return sum_, fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x * times if times != 1.0 else x))


def exp2(x: Value) -> Value:
    """Within 2 ulp.

    x = n + r with |r| <= 1/2; 2**r is a polynomial of degree 6, off by 2**-28.
    """
    x = clip(x, -151.0, 129.0)
    sum_ = x + TWICE
    power = polynomial(x - (sum_ - TWICE), *POWER_OF_TWO)
    return scaled(power, sum_)


def scaled(x: Value, sum_: Value) -> Value:
    """`x * 2**n`, given `n + TWICE`: in two steps of about n / 2, of which the second rounds if need be, to subnormal
    numbers, to zero or to infinity."""
    biased = sum_.bits(uint32)  # n + 254, and high bits that the shifts below move out
    half = biased >> 1
    for exponent in (half, biased - half):
        x = x * (exponent << 23).bits(float32)
    return x


EXP: Formula = formula(exp)
EXP2: Formula = formula(exp2)

"""tanh: a polynomial near zero, and elsewhere from there by the law of addition."""

from __future__ import annotations

from ocannl.codegen.formula import ROUND, Formula, Value, fma, formula, polynomial
from ocannl.codegen.formulas.exponential import LN2, LOG2_E
from ocannl.ir.precision import float32, uint32

ONCE = ROUND + 127  # its last bits are the bias of exponents
SIGN = 0x80000000


def tanh(x: Value) -> Value:
    """Within 2.5 ulp.

    2 |x| = n ln 2 + 2 s with |s| <= ln(2) / 4. With t = tanh(s) = s + s**3 p(s**2), where p has degree 2 and t is off
    by 2**-32, tanh(|x|) = (2**n - 1 + t (2**n + 1)) / (2**n + 1 + t (2**n - 1)). Near zero, n is 0: what is left is t.
    """
    size = abs(x)
    size = size.apply("min", size, 9.02)  # beyond lies 1
    sum_ = fma(size, 2 * LOG2_E, ONCE)
    s = fma(sum_ - ONCE, -LN2 / 2, size)
    square = s * s
    t = fma(s * square, polynomial(square, -0.33333322405815125, 0.13331128656864166, -0.05270935222506523), s)
    power = (sum_.bits(uint32) << 23).bits(float32)
    more, less = power + 1.0, power - 1.0
    ratio = fma(t, more, less) / fma(t, less, more)
    return (ratio.bits(uint32) | (x.bits(uint32) & SIGN)).bits(float32)


TANH: Formula = formula(tanh)

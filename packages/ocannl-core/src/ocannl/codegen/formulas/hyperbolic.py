"""tanh: argument reduction by the addition theorem, and an odd polynomial near zero."""

from __future__ import annotations

from ocannl.codegen.formula_ir import ROUND_MAGIC, Formula, TracedValue, fma, formula, polynomial
from ocannl.codegen.formulas.exponential import LN2, LOG2_E
from ocannl.ir.precision import float32, uint32

ROUND_MAGIC_BIASED = ROUND_MAGIC + 127  # its low bits hold the exponent bias of float32
SIGN_BIT = 0x80000000


def tanh(x: TracedValue) -> TracedValue:
    """Within 2.5 ulp.

    2 |x| = n ln 2 + 2 s with |s| <= ln(2) / 4. With t = tanh(s) = s + s**3 p(s**2), where p has degree 2 and t has an
    error of 2**-32, tanh(|x|) = (2**n - 1 + t (2**n + 1)) / (2**n + 1 + t (2**n - 1)). Near zero n is 0 and the result
    is t.
    """
    magnitude = abs(x)
    magnitude = magnitude.apply("min", magnitude, 9.02)  # tanh rounds to 1 above
    sum_ = fma(magnitude, 2 * LOG2_E, ROUND_MAGIC_BIASED)
    s = fma(sum_ - ROUND_MAGIC_BIASED, -LN2 / 2, magnitude)
    square = s * s
    t = fma(s * square, polynomial(square, -0.33333322405815125, 0.13331128656864166, -0.05270935222506523), s)
    power = (sum_.bits(uint32) << 23).bits(float32)
    power_plus, power_minus = power + 1.0, power - 1.0
    ratio = fma(t, power_plus, power_minus) / fma(t, power_minus, power_plus)
    return (ratio.bits(uint32) | (x.bits(uint32) & SIGN_BIT)).bits(float32)


TANH: Formula = formula(tanh)

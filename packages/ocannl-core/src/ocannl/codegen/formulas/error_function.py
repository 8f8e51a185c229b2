"""erf and erfc: polynomials near zero, and powers of polynomials or products of exponentials in the tails."""

from __future__ import annotations

from ocannl.codegen.formula_ir import ROUND_MAGIC, Formula, TracedValue, fma, formula, polynomial, scale, where
from ocannl.codegen.formulas.exponential import EXP_COEFFICIENTS, LN2_HIGH, LN2_LOW, LOG2_E
from ocannl.codegen.formulas.hyperbolic import SIGN_BIT
from ocannl.ir.precision import float32, uint32

HIGH_BITS = 0xFFFFF000  # the sign, the exponent and 12 bits of the mantissa: their square is exact


def erf(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    Where |x| < 1, x + x p(x**2). Elsewhere 1 - q(|x|)**4, where q has degree 7, with error 2**-25; erf rounds to 1
    above 4.2, where the difference is exactly 1.
    """
    magnitude = abs(x)
    root = polynomial(
        magnitude.apply("min", magnitude, 4.2), 1.0039654970169067, -0.3025229573249817, -0.07417251914739609,
        -0.040446773171424866, 0.06062238663434982, -0.02044435776770115, 0.0029251426458358765,
        -0.00015688370331190526,
    )  # fmt: skip
    square = root * root
    tail = 1.0 - square * square
    signed_tail = (tail.bits(uint32) | (x.bits(uint32) & SIGN_BIT)).bits(float32)
    return where(magnitude < 1.0, fma(x, central_factor(x), x), signed_tail)


def erfc(x: TracedValue) -> TracedValue:
    """Within 3.5 ulp.

    For a = |x|, erfc(a) = exp(-a**2) t p(t - 1/2), where t = 1 / (1 + a) and p has degree 12, with error 2**-27. The
    high part of a is squared exactly; the rest of a**2 and the rounding error of 1 + a are added to the remainder of
    the exponential.
    """
    magnitude = abs(x)
    a = magnitude.apply("min", magnitude, 10.5)  # erfc rounds to zero above
    denominator = a + 1.0
    t = 1.0 / denominator
    ratio = t * polynomial(
        t - 0.5, 0.8551671504974365, 0.4753616750240326, -0.3822253942489624, -0.11125140637159348, 0.40631818771362305,
        -0.3062226474285126, -0.07802212983369827, 0.48184362053871155, -0.605427622795105, 0.17696423828601837,
        0.6122046709060669, -0.8510205745697021, 0.3319517970085144,
    )  # fmt: skip
    high = (a.bits(uint32) & HIGH_BITS).bits(float32)
    n = fma(a * a, LOG2_E, ROUND_MAGIC) - ROUND_MAGIC
    rounding_error = a - (denominator - 1.0)
    remainder = fma(rounding_error, t, fma(n, -LN2_LOW, fma(n, -LN2_HIGH, high * high)))
    remainder = fma(a - high, a + high, remainder)
    slope = polynomial(remainder, *(c if power % 2 else -c for power, c in enumerate(EXP_COEFFICIENTS[1:])))
    value = scale(fma(ratio * remainder, slope, ratio), 0.0 - n)
    return where(x < 0.0, 2.0 - value, value)


def central_factor(x: TracedValue) -> TracedValue:
    """erf(x) / x - 1 for |x| < 1, as a polynomial of x**2 of degree 5, with error 2**-24."""
    return polynomial(
        x * x, 0.12837912142276764, -0.37612318992614746, 0.11280114948749542, -0.026709293946623802,
        0.0049150316044688225, -0.0005620496231131256,
    )  # fmt: skip


ERF: Formula = formula(erf)
ERFC: Formula = formula(erfc)

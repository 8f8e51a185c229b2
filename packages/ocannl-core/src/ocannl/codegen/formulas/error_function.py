"""erf and erfc: polynomials near zero, and polynomials or products of exponentials in the tails."""

from __future__ import annotations

from ocannl.codegen.formula_ir import (
    ROUND_MAGIC,
    Formula,
    TracedValue,
    estrin,
    fma,
    formula,
    polynomial,
    scale,
    where,
)
from ocannl.codegen.formulas.exponential import EXP_COEFFICIENTS, LN2_HIGH, LN2_LOW, LOG2_E
from ocannl.codegen.formulas.hyperbolic import SIGN_BIT
from ocannl.ir.precision import float32, uint32

HIGH_BITS = 0xFFFFF000  # the sign, the exponent and 12 bits of the mantissa: their square is exact


def erf(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    Where |x| < 0.921875, x + x p(x**2). Elsewhere 1 - q(u) with -1 <= u <= 1, where q has degree 14, with error 2**-26;
    erf rounds to 1 above 3.92.
    """
    magnitude = abs(x)
    u = fma(magnitude.apply("min", magnitude, 3.92), 0.6670836210250854, -1.614967703819275)
    tail = 1.0 - estrin(
        u, 0.0006176953320391476, -0.004818254616111517, 0.017486725002527237, -0.03870338201522827,
        0.05711933970451355, -0.05677412450313568, 0.03453919664025307, -0.005681190174072981, -0.011795755475759506,
        0.012592919170856476, -0.003796761855483055, -0.0029080165550112724, 0.002354634692892432,
        0.00012890253856312484, -0.0003619106428232044,
    )  # fmt: skip
    signed_tail = (tail.bits(uint32) | (x.bits(uint32) & SIGN_BIT)).bits(float32)
    return where(magnitude < 0.921875, fma(x, central_factor(x), x), signed_tail)


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
    """erf(x) / x - 1 for |x| < 0.925, as a polynomial of x**2 of degree 5, with error 2**-25."""
    return estrin(
        x * x, 0.12837915122509003, -0.37612494826316833, 0.11281804740428925, -0.02676580473780632,
        0.004991641268134117, -0.0005981807480566204,
    )  # fmt: skip


ERF: Formula = formula(erf)
ERFC: Formula = formula(erfc)

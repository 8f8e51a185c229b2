"""pow: 2**(y log2 x), with the logarithm computed in float64."""

from __future__ import annotations

from ocannl.codegen.formula_ir import Formula, TracedValue, clip, fma, formula, polynomial, scale, where
from ocannl.codegen.formulas.exponential import EXP2_COEFFICIENTS
from ocannl.codegen.formulas.logarithm import INFINITY, NAN, split_exponent
from ocannl.ir.precision import float32, float64, uint32

ROUND_MAGIC = 1.5 * 2.0**52
SIGN_BIT = 0x80000000


def pow(x: TracedValue, y: TracedValue) -> TracedValue:
    """Within 2 ulp.

    |x|**y = 2**(y log2 |x|); log2(1 + f) = f p(f), where p has degree 12, with error 2**-35, and |y log2 |x|| < 2**8
    where the power is neither zero nor infinite.
    """
    magnitude = abs(x)
    exponent, fraction = split_exponent(magnitude)
    wide = fraction.cast(float64)
    log2 = fma(
        polynomial(
            wide, 1.4426950408687056, -0.7213475208687468, 0.48089836139566444, -0.3606736748297309,
            0.28853729345698076, -0.24045316549509255, 0.20617535978827642, -0.18030060353156296, 0.1587697996540387,
            -0.14315643847093037, 0.1447484379936847, -0.14283940682676105, 0.07737047126823685,
        ),
        wide,
        exponent.cast(float64),
    )  # fmt: skip
    product = clip(log2 * y.cast(float64), -151.0, 129.0)
    rounded = product + ROUND_MAGIC - ROUND_MAGIC
    power = polynomial((product - rounded).cast(float32), *EXP2_COEFFICIENTS)
    value = scale(power, rounded.cast(float32))
    limits = where(y > 0.0, magnitude, where(y < 0.0, 1.0 / magnitude, y))  # for zero, infinity and NaN
    value = where(magnitude.compare("eq", 0.0), limits, where(magnitude < INFINITY, value, limits))
    value = where(magnitude.compare("eq", 1.0), 1.0, value)
    return where(y.compare("eq", 0.0), 1.0, with_sign(x, y, value))


def with_sign(x: TracedValue, y: TracedValue, value: TracedValue) -> TracedValue:
    """`value` = |x|**y with the sign of x if y is an odd integer; NaN if x is negative and y is not an integer."""
    half = truncated(y * 0.5)
    signed = (value.bits(uint32) | (x.bits(uint32) & SIGN_BIT)).bits(float32)
    for_fraction = where(x < 0.0, where(x > -INFINITY, NAN, value), value)
    for_integer = where((half + half).compare("eq", y), value, signed)
    return where(truncated(y).compare("eq", y), for_integer, for_fraction)


def truncated(x: TracedValue) -> TracedValue:
    return x.apply("trunc", x)


POW: Formula = formula(pow)

"""log and log2: the exponent plus a polynomial of the mantissa."""

from __future__ import annotations

from ocannl.codegen.formula_ir import Formula, TracedValue, fma, formula, polynomial, where
from ocannl.ir.precision import float32, int32, uint32

LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444005469057e-04  # Cody-Waite split: multiples of LN2_HIGH (9 bits) are exact
LOG2_E = 1.4426950408889634
MIN_NORMAL = 2.0**-126
SQRT_HALF_BITS = 0x3F3504F3  # the bits of the square root of 1/2
INFINITY, NAN = float("inf"), float("nan")


def log(x: TracedValue) -> TracedValue:
    """Within 1 ulp.

    x = 2**n (1 + f) with 1 + f between the square roots of 1/2 and 2; log(1 + f) = f - f**2/2 + f**3 p(f), where p has
    degree 7, with error 2**-27 f.
    """
    exponent, f = split_exponent(x)
    square = f * f
    remainder = f * square * polynomial(
        f, 0.33333316445350647, -0.25000810623168945, 0.20002302527427673, -0.16624559462070465, 0.14180907607078552,
        -0.1312844604253769, 0.128832146525383, -0.07862164825201035,
    )  # fmt: skip
    remainder = fma(square, -0.5, fma(exponent, LN2_LOW, remainder))
    return with_special_cases(x, fma(exponent, LN2_HIGH, f + remainder))


def log2(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    As log; log2(1 + f) = f / ln 2 + f**2 p(f), where p has degree 8, with error 2**-25 f.
    """
    exponent, f = split_exponent(x)
    remainder = f * f * polynomial(
        f, -0.7213475108146667, 0.48090335726737976, -0.3606816828250885, 0.28833726048469543, -0.23984451591968536,
        0.20820459723472595, -0.19213904440402985, 0.16737312078475952, -0.08761755377054214,
    )  # fmt: skip
    return with_special_cases(x, exponent + fma(f, LOG2_E, remainder))


def split_exponent(x: TracedValue) -> tuple[TracedValue, TracedValue]:
    """The integer n and the fraction f with x = 2**n (1 + f), for positive x (cf. `frexp`)."""
    small = x < MIN_NORMAL
    bits = where(small, x * 2.0**23, x).bits(uint32)
    exponent = (bits - SQRT_HALF_BITS).bits(int32) >> 23
    fraction = (bits - (exponent.bits(uint32) << 23)).bits(float32) - 1.0
    exponent_value = exponent.cast(float32)
    return where(small, exponent_value - 23.0, exponent_value), fraction


def with_special_cases(x: TracedValue, value: TracedValue) -> TracedValue:
    """`value` for positive finite x; -inf for zero, NaN for negative x, and x for infinity and NaN."""
    special = where(x.compare("eq", 0.0), -INFINITY, NAN)
    return where(x < INFINITY, where(x > 0.0, value, special), x)


LOG: Formula = formula(log)
LOG2: Formula = formula(log2)

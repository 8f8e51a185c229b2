"""log and log2: the exponent, and a polynomial of the rest."""

from __future__ import annotations

from ocannl.codegen.formula import Formula, Value, fma, formula, polynomial, where
from ocannl.ir.precision import float32, int32, uint32

LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444005469057e-04  # the first has 9 bits: its multiples are exact
LOG2_E = 1.4426950408889634
NORMAL = 2.0**-126
ROOT = 0x3F3504F3  # the bits of the square root of 1/2
INFINITY, NAN = float("inf"), float("nan")


def log(x: Value) -> Value:
    """Within 1 ulp.

    x = 2**n (1 + f) between the square roots of 1/2 and 2; log(1 + f) = f - f**2/2 + f**3 p(f), where p has degree 7,
    off by 2**-27 f.
    """
    n, f = parts(x)
    square = f * f
    rest = f * square * polynomial(
        f, 0.33333316445350647, -0.25000810623168945, 0.20002302527427673, -0.16624559462070465, 0.14180907607078552,
        -0.1312844604253769, 0.128832146525383, -0.07862164825201035,
    )  # fmt: skip
    rest = fma(square, -0.5, fma(n, LN2_LOW, rest))
    return special(x, fma(n, LN2_HIGH, f + rest))


def log2(x: Value) -> Value:
    """Within 2 ulp.

    As log; log2(1 + f) = f / ln 2 + f**2 p(f), where p has degree 8, off by 2**-25 f.
    """
    n, f = parts(x)
    rest = f * f * polynomial(
        f, -0.7213475108146667, 0.48090335726737976, -0.3606816828250885, 0.28833726048469543, -0.23984451591968536,
        0.20820459723472595, -0.19213904440402985, 0.16737312078475952, -0.08761755377054214,
    )  # fmt: skip
    return special(x, n + fma(f, LOG2_E, rest))


def parts(x: Value) -> tuple[Value, Value]:
    """The whole n and the f such that x = 2**n (1 + f), of a positive number."""
    small = x < NORMAL
    bits = where(small, x * 2.0**23, x).bits(uint32)
    n = (bits - ROOT).bits(int32) >> 23
    f = (bits - (n.bits(uint32) << 23)).bits(float32) - 1.0
    whole = n.cast(float32)
    return where(small, whole - 23.0, whole), f


def special(x: Value, value: Value) -> Value:
    """Minus infinity of zero, NaN of what is less; infinity and NaN stay."""
    of_others = where(x.compare("eq", 0.0), -INFINITY, NAN)
    return where(x < INFINITY, where(x > 0.0, value, of_others), x)


LOG: Formula = formula(log)
LOG2: Formula = formula(log2)

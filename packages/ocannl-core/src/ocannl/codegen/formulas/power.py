"""pow, by way of the logarithm in float64."""

from __future__ import annotations

from ocannl.codegen.formula import Formula, Value, clip, fma, formula, polynomial, scale, where
from ocannl.codegen.formulas.exponential import POWER_OF_TWO
from ocannl.codegen.formulas.logarithm import INFINITY, NAN, parts
from ocannl.ir.precision import float32, float64, uint32

ROUND = 1.5 * 2.0**52
SIGN = 0x80000000


def pow(x: Value, y: Value) -> Value:
    """Within 2 ulp.

    |x|**y = 2**(y log2 |x|); log2(1 + f) = f p(f), where p has degree 12, off by 2**-35, and |y log2 |x|| < 2**8 where
    the power is neither zero nor infinite.
    """
    size = abs(x)
    turns, f = parts(size)
    wide = f.cast(float64)
    log2 = fma(
        polynomial(
            wide, 1.4426950408687056, -0.7213475208687468, 0.48089836139566444, -0.3606736748297309,
            0.28853729345698076, -0.24045316549509255, 0.20617535978827642, -0.18030060353156296, 0.1587697996540387,
            -0.14315643847093037, 0.1447484379936847, -0.14283940682676105, 0.07737047126823685,
        ),
        wide,
        turns.cast(float64),
    )  # fmt: skip
    many = clip(log2 * y.cast(float64), -151.0, 129.0)
    whole = many + ROUND - ROUND
    power = polynomial((many - whole).cast(float32), *POWER_OF_TWO)
    value = scale(power, whole.cast(float32))
    ends = where(y > 0.0, size, where(y < 0.0, 1.0 / size, y))  # of zero, infinity and NaN
    value = where(size.compare("eq", 0.0), ends, where(size < INFINITY, value, ends))
    value = where(size.compare("eq", 1.0), 1.0, value)
    return where(y.compare("eq", 0.0), 1.0, with_sign(x, y, value))


def with_sign(x: Value, y: Value, value: Value) -> Value:
    """`value`, which is |x|**y, with the sign of x if y is odd; NaN of a negative number if y is not whole."""
    half = truncated(y * 0.5)
    signed = (value.bits(uint32) | (x.bits(uint32) & SIGN)).bits(float32)
    of_fraction = where(x < 0.0, where(x > -INFINITY, NAN, value), value)
    of_whole = where((half + half).compare("eq", y), value, signed)
    return where(truncated(y).compare("eq", y), of_whole, of_fraction)


def truncated(x: Value) -> Value:
    return x.apply("trunc", x)


POW: Formula = formula(pow)

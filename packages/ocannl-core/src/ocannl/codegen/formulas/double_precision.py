"""exp, log, sin and cos in float64."""

from __future__ import annotations

from ocannl.codegen.formula_ir import ROUND_MAGIC_F64, Formula, TracedValue, fma, formula, polynomial, scale, where
from ocannl.codegen.formulas.trigonometric import INVERSE_PI, MAX_REDUCIBLE
from ocannl.ir.precision import float64, uint64

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # multiples of LN2_HIGH (32 bits) are exact
MIN_NORMAL = 2.0**-1022
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of the square root of 1/2
ONE_BITS = 0x3FF0000000000000
MANTISSA = (1 << 52) - 1
EXPONENT_BIAS = 1023
ROUND_MAGIC_BITS = 0x4338000000000000  # those of ROUND_MAGIC_F64
INFINITY, NAN = float("inf"), float("nan")
HALF_PI_HIGH, HALF_PI_MIDDLE = 1.5707963267341256, 6.077100506303966e-11  # 31 bits; multiples are exact
HALF_PI_LOW = 2.0222662487959506e-21
MIN_REMAINDER = 2.0**-16  # the terms of a smaller remainder cancel
SINE = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COSINE = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip


def exp(x: TracedValue) -> TracedValue:
    """Within 1 ulp.

    x = n ln 2 + r with |r| <= ln(2) / 2; e**r is a polynomial of degree 12 with error 2**-59.
    """
    is_zero = x < -746.0
    x = where(is_zero, 0.0, x.apply("min", x, 710.0), float64)
    n = fma(x, LOG2_E, ROUND_MAGIC_F64) - ROUND_MAGIC_F64
    high, low = fma(n, -LN2_HIGH, x), n * LN2_LOW
    r = high - low
    curved = r * r * polynomial(
        r, 0.5, 0.16666666666666669, 0.041666666666666664, 0.008333333333330039, 0.0013888888888886537,
        0.00019841269863171557, 2.4801587317228724e-05, 2.7557268276905696e-06, 2.7557282838800484e-07,
        2.5100472505694996e-08, 2.09112987659402e-09,
    )  # fmt: skip
    rounding_error = (high - r) - low
    return where(is_zero, 0.0, scale((curved + rounding_error) + r + 1.0, n), float64)


def log(x: TracedValue) -> TracedValue:
    """Within 1 ulp.

    x = 2**n (1 + f) with 1 + f between the square roots of 1/2 and 2. With s = f / (2 + f), log(1 + f) =
    f - f**2 / 2 + s (f**2 / 2 + s**2 p(s**2)), where p has degree 6, with error 2**-58 (the polynomial of fdlibm, Sun
    Microsystems 1993).
    """
    is_small = x < MIN_NORMAL
    shifted = where(is_small, x * 2.0**52, x, float64).bits(uint64) + (ONE_BITS - SQRT_HALF_BITS)
    exponent = ((shifted >> 52) | ROUND_MAGIC_BITS).bits(float64) - (ROUND_MAGIC_F64 + EXPONENT_BIAS)
    n = where(is_small, exponent - 52.0, exponent, float64)
    f = ((shifted & MANTISSA) + SQRT_HALF_BITS).bits(float64) - 1.0
    half_square = f * f * 0.5
    s = f / (f + 2.0)
    square = s * s
    remainder = half_square + square * polynomial(
        square, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
        1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
    )  # fmt: skip
    value = fma(n, LN2_HIGH, f - (half_square - fma(s, remainder, n * LN2_LOW)))
    special = where(x.compare("eq", 0.0), -INFINITY, NAN, float64)
    return where(x < INFINITY, where(x > 0.0, value, special, float64), x, float64)


def sin(x: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Within 1 ulp.

    x = n pi / 2 + r with |r| <= pi / 4; sin x is sin r or cos r, with the sign of the quadrant n.
    """
    return _sine_of_quadrant(x, 0)


def cos(x: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Within 1 ulp. The sine of the next quadrant."""
    return _sine_of_quadrant(x, 1)


def _sine_of_quadrant(x: TracedValue, quadrants: int) -> tuple[TracedValue, TracedValue]:
    """The sine of `x + quadrants * pi / 2`, and the slow-path test.

    With u = r**2, sin r = r + r u p(u) and cos r = 1 - u / 2 + u**2 q(u), where p and q have degree 5, with error
    2**-58 (the polynomials of fdlibm, Sun Microsystems 1993). sin(-0.0) is -0.0.
    """
    sum_ = fma(x, 2 * INVERSE_PI, ROUND_MAGIC_F64)
    n = sum_ - ROUND_MAGIC_F64
    high, middle = fma(n, -HALF_PI_HIGH, x), n * HALF_PI_MIDDLE
    r = high - middle
    excess = fma(n, HALF_PI_LOW, middle - (high - r))  # of r over the remainder
    square = r * r
    cube = square * r
    correction = excess - square * fma(cube, polynomial(square, *SINE[1:]), excess * 0.5)
    sine = r - (correction - cube * SINE[0])
    half_square = square * 0.5
    head = 1.0 - half_square
    tail = fma(square * square, polynomial(square, *COSINE), r * excess)
    cosine = head + (((1.0 - head) - half_square) + tail)
    quadrant = sum_.bits(uint64) + quadrants
    value = where((quadrant & 1).compare("eq", 0), sine, cosine, float64)
    signed = (value.bits(uint64) ^ ((quadrant >> 1) << 63)).bits(float64)
    return signed, abs(x) >= where(abs(r) < MIN_REMAINDER, 1.0, MAX_REDUCIBLE, float64)


DOUBLE_FORMULAS: tuple[Formula, ...] = tuple([formula(function, float64) for function in (exp, log, sin, cos)])

"""sin and cos: argument reduction by multiples of pi, and a polynomial of the remainder."""

from __future__ import annotations

from ocannl.codegen.formula_ir import ROUND_MAGIC, Formula, TracedValue, fma, formula, polynomial
from ocannl.ir.precision import float32, float64, uint32

MAX_REDUCIBLE = 2.0**17
PI_HIGH, PI_LOW = 3.1415926534682512, 1.2154201013012384e-10  # multiples of PI_HIGH up to MAX_REDUCIBLE are exact
INVERSE_PI = 0.3183098861837907


def sin(x: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Within 2 ulp.

    x = n pi + r with |r| <= pi / 2; sin x = (-1)**n sin r.
    """
    far = abs(x) >= MAX_REDUCIBLE
    sum_ = fma(x, INVERSE_PI, ROUND_MAGIC)
    return sine_of_remainder(x, sum_ - ROUND_MAGIC, sum_), far


def cos(x: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Within 2 ulp.

    x = (n - 1/2) pi + r with |r| <= pi / 2; cos x = (-1)**n sin r.
    """
    far = abs(x) >= MAX_REDUCIBLE
    sum_ = fma(x, INVERSE_PI, 0.5) + ROUND_MAGIC
    return sine_of_remainder(x, sum_ - ROUND_MAGIC - 0.5, sum_), far


def sine_of_remainder(x: TracedValue, multiple: TracedValue, sum_: TracedValue) -> TracedValue:
    """The sine of `x - multiple * pi`, negated where the lowest bit of `sum_` is set.

    sin r = r + r**3 p(r**2), where p has degree 3, with error 2**-27 r; sin(-0.0) is -0.0.
    """
    multiple_f64 = multiple.cast(float64)
    r = fma(multiple_f64, -PI_LOW, fma(multiple_f64, -PI_HIGH, x.cast(float64))).cast(float32)
    square = r * r
    odd = polynomial(
        square, -0.16666659712791443, 0.00833306647837162, -0.00019809440709650517, 2.605140480227419e-06
    )
    value = fma(fma(square, odd, 0.0), r, r)
    return (value.bits(uint32) ^ (sum_.bits(uint32) << 31)).bits(float32)


SIN: Formula = formula(sin)
COS: Formula = formula(cos)

"""sin and cos: the sine of what is left over of multiples of pi."""

from __future__ import annotations

from ocannl.codegen.formula import ROUND, Formula, Value, fma, formula, polynomial
from ocannl.ir.precision import float32, float64, uint32

FAR = 2.0**17
PI_HIGH, PI_LOW = 3.1415926534682512, 1.2154201013012384e-10  # of the first, multiples up to FAR are exact in float64
INVERSE = 0.3183098861837907


def sin(x: Value) -> tuple[Value, Value]:
    """Within 2 ulp.

    x = n pi + r with |r| <= pi / 2; sin x = (-1)**n sin r.
    """
    far = abs(x) >= FAR
    sum_ = fma(x, INVERSE, ROUND)
    return alternating(x, sum_ - ROUND, sum_), far


def cos(x: Value) -> tuple[Value, Value]:
    """Within 2 ulp.

    x = (n - 1/2) pi + r with |r| <= pi / 2; cos x = (-1)**n sin r.
    """
    far = abs(x) >= FAR
    sum_ = fma(x, INVERSE, 0.5) + ROUND
    return alternating(x, sum_ - ROUND - 0.5, sum_), far


def alternating(x: Value, turns: Value, sum_: Value) -> Value:
    """The sine of `x - turns * pi`, with the other sign where the last bit of `sum_` is set.

    sin r = r + r**3 p(r**2), where p has degree 3, off by 2**-27 r; of minus zero it is minus zero.
    """
    many = turns.cast(float64)
    r = fma(many, -PI_LOW, fma(many, -PI_HIGH, x.cast(float64))).cast(float32)
    square = r * r
    odd = polynomial(
        square, -0.16666659712791443, 0.00833306647837162, -0.00019809440709650517, 2.605140480227419e-06
    )
    value = fma(fma(square, odd, 0.0), r, r)
    return (value.bits(uint32) ^ (sum_.bits(uint32) << 31)).bits(float32)


SIN: Formula = formula(sin)
COS: Formula = formula(cos)

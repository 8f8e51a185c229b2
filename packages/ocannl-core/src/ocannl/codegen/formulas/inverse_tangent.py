"""atan and atan2: a polynomial on [0, 1], and the symmetries of the octants."""

from __future__ import annotations

from ocannl.codegen.formula_ir import Formula, TracedValue, fma, formula, polynomial, where
from ocannl.codegen.formulas.hyperbolic import SIGN_BIT
from ocannl.ir.precision import float32, int32, uint32

PI_HIGH, PI_LOW = 3.1415927410125732, 8.742278000372485e-08  # pi = PI_HIGH - PI_LOW


def atan(x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    atan(|x|) = pi/2 - atan(1 / |x|) where |x| > 1.
    """
    magnitude = abs(x)
    angle = atan_of_fraction(magnitude.apply("min", magnitude, 1.0) / magnitude.apply("max", magnitude, 1.0))
    angle = where(magnitude > 1.0, PI_HIGH / 2 - (angle + PI_LOW / 2), angle)
    return with_sign_of(x, angle)


def atan2(y: TracedValue, x: TracedValue) -> TracedValue:
    """Within 2 ulp.

    The angle of the point (|x|, |y|), mirrored at the axes as the signs require.
    """
    side, height = abs(x), abs(y)
    longer = side.apply("max", side, height)
    fraction = side.apply("min", side, height) / longer
    fraction = where(side.compare("eq", height), where(longer > 0.0, 1.0, 0.0), fraction)
    angle = atan_of_fraction(fraction)
    angle = where(height > side, PI_HIGH / 2 - (angle + PI_LOW / 2), angle)
    angle = where(x.bits(int32) < 0, PI_HIGH - (angle + PI_LOW), angle)
    return with_sign_of(y, angle)


def atan_of_fraction(t: TracedValue) -> TracedValue:
    """The inverse tangent of t in [0, 1] is t + t**3 p(t**2), where p has degree 8, with error 2**-28."""
    square = t * t
    odd = polynomial(
        square, -0.33333298563957214, 0.1999853253364563, -0.14264073967933655, 0.109513059258461, -0.08400870114564896,
        0.057913221418857574, -0.03113340213894844, 0.010890606790781021, -0.0017882226966321468,
    )  # fmt: skip
    return fma(square * odd, t, t)


def with_sign_of(x: TracedValue, value: TracedValue) -> TracedValue:
    """`value`, which is not negative, with the sign of `x`."""
    return (value.bits(uint32) | (x.bits(uint32) & SIGN_BIT)).bits(float32)


ATAN: Formula = formula(atan)
ATAN2: Formula = formula(atan2)

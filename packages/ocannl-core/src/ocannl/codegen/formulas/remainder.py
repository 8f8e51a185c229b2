"""mod: the exact remainder of a quotient below 2**29, computed in float64."""

from __future__ import annotations

from ocannl.codegen.formula_ir import Formula, TracedValue, formula, where
from ocannl.codegen.formulas.hyperbolic import SIGN_BIT
from ocannl.codegen.formulas.logarithm import INFINITY
from ocannl.ir.precision import float32, float64, int32, uint32

MAX_QUOTIENT = 2.0**29  # its product with a float32 is exact in float64


def mod(x: TracedValue, y: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Within 1 ulp.

    The remainder x - trunc(x / y) y is exact; a remainder with the sign opposite to that of y is increased by y. If the
    quotient was rounded to the next integer, the remainder has the opposite sign, too. Zero has the sign of y.
    """
    dividend, divisor = x.cast(float64), y.cast(float64)
    quotient = dividend / divisor
    quotient = quotient.apply("trunc", quotient)
    remainder = (dividend - quotient * divisor).cast(float32)
    remainder = where(abs(y).compare("eq", INFINITY), x + (x - x), remainder)
    differs = (remainder.bits(uint32) ^ y.bits(uint32)).bits(int32) < 0
    zero = (y.bits(uint32) & SIGN_BIT).bits(float32)
    value = where(remainder.compare("eq", 0.0), zero, where(differs, remainder + y, remainder))
    return value, abs(quotient.cast(float32)) >= MAX_QUOTIENT


MOD: Formula = formula(mod)

"""tanh: near zero a polynomial, elsewhere by way of e**(2 |x|)."""

from __future__ import annotations

from ocannl.codegen.formula import Formula, Value, fma, formula, polynomial, where
from ocannl.codegen.formulas.exponential import POWER, ROUND, reduced
from ocannl.ir.precision import float32, uint32

ONCE = ROUND + 127  # its last bits are the bias of exponents
SIGN = 0x80000000


def tanh(x: Value) -> Value:
    """Within 2 ulp.

    |x| + |x|**3 p(x**2) below 0.55, where p has degree 4, off by 2**-29 x; else 1 - 2 / (e**(2 |x|) + 1).
    """
    size = abs(x)
    size = size.apply("min", size, 9.02)  # beyond lies 1
    n, r = reduced(size, 2.0, ONCE)
    power = polynomial(r, *POWER) * (n.bits(uint32) << 23).bits(float32)
    large = 1.0 - 2.0 / (power + 1.0)
    square = size * size
    odd = polynomial(
        square, -0.33333316445350647, 0.13332544267177582, -0.0538475476205349, 0.02105071395635605,
        -0.0062428489327430725,
    )  # fmt: skip
    small = fma(square * odd, size, size)
    return (where(size < 0.55, small, large).bits(uint32) | (x.bits(uint32) & SIGN)).bits(float32)


TANH: Formula = formula(tanh)

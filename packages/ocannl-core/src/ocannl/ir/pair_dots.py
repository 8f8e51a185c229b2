"""Dot products of two pairs of narrow numbers in 32 bits, for which some processors have an instruction."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Apply, Cast, Expr, Load, Var
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import Precision, bfloat16, float32, int8, int16, int32, uint8

Factors = tuple[Expr, Expr, Expr, Expr]
"""The narrow factors of two products: the first two are multiplied, and the last two."""

SUM_PRECISIONS: Mapping[Precision, Precision] = {bfloat16: float32, int16: int32, int8: int32, uint8: int32}
"""The precision of the sum, by that of a factor. Integers of 8 bits are extended to 16, and multiplied with any."""


def has_dots(capabilities: Capabilities, sums: Precision) -> bool:
    """Whether a target has instructions for dot products with sums of this precision."""
    return capabilities.bfloat16_dots if sums is float32 else capabilities.int16_dots and sums is int32


def dot_of_pairs(factors: Factors) -> Expr:
    """Returns `f32(x)*f32(y) + f32(u)*f32(v)`, or the same sum in `i32`."""
    sums = SUM_PRECISIONS[factors[0].precision]
    x, y, u, v = (Cast(factor, sums) for factor in factors)
    return Apply(ADD, (Apply(MUL, (x, y)), Apply(MUL, (u, v))))


def factors_of_dot(expr: Expr) -> Factors | None:
    """Returns the factors of an expression that `dot_of_pairs` has built; None for other expressions."""
    match expr:
        case Apply(op, (Apply(first, (Cast(x), Cast(y))), Apply(second, (Cast(u), Cast(v))))) if (
            op is ADD and first is MUL and second is MUL
        ):
            is_pair = all(
                isinstance(factor, Load | Var) and SUM_PRECISIONS.get(factor.precision) is expr.precision
                for factor in (x, y, u, v)
            )
            return (x, y, u, v) if is_pair else None
        case _:
            return None

"""Dot products of two pairs of bfloat16 numbers in float32, for which some processors have an instruction."""

from __future__ import annotations

from ocannl.ir.loops import Apply, Cast, Expr, Load, Var
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import bfloat16, float32

Factors = tuple[Expr, Expr, Expr, Expr]
"""The bfloat16 factors of two products: the first two are multiplied, and the last two."""


def dot_of_pairs(factors: Factors) -> Expr:
    """Returns `f32(x)*f32(y) + f32(u)*f32(v)`."""
    x, y, u, v = (Cast(factor, float32) for factor in factors)
    return Apply(ADD, (Apply(MUL, (x, y)), Apply(MUL, (u, v))))


def factors_of_dot(expr: Expr) -> Factors | None:
    """Returns the factors of an expression that `dot_of_pairs` has built; None for other expressions."""
    match expr:
        case Apply(op, (Apply(first, (Cast(x), Cast(y))), Apply(second, (Cast(u), Cast(v))))) if (
            op is ADD and first is MUL and second is MUL and expr.precision is float32
        ):
            is_pair = all(isinstance(factor, Load | Var) and factor.precision is bfloat16 for factor in (x, y, u, v))
            return (x, y, u, v) if is_pair else None
        case _:
            return None

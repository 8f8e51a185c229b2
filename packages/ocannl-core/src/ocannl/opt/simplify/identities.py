"""Algebraic identities that hold for all values including NaN and infinities, except for the sign of zero."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, isinf

from ocannl.ir.loops import Apply, Const, Expr, IndexValue, Load, Var
from ocannl.ir.ops import ADD, BY_NAME, MUL, NEG, SUB
from ocannl.opt.analysis.constant_folding import equals_const

INF = float("inf")

Rule = Callable[..., Expr | None]


def are_equal(a: Expr, b: Expr) -> bool:
    """Whether two expressions are identical or equal leaves; does not descend into operands."""
    if a is b:
        return True
    return isinstance(a, Const | IndexValue | Load | Var) and type(a) is type(b) and a == b


def _add(x: Expr, y: Expr) -> Expr | None:
    if equals_const(x, 0):
        return y
    if equals_const(y, 0):
        return x
    match x, y:
        case _, Apply(op, (z,)) if op is NEG:
            return Apply(SUB, (x, z))
        case Apply(op, (z,)), _ if op is NEG:
            return Apply(SUB, (y, z))
    return None


def _sub(x: Expr, y: Expr) -> Expr | None:
    if equals_const(y, 0):
        return x
    match y:
        case Apply(op, (z,)) if op is NEG:
            return Apply(ADD, (x, z))
    return None


def _mul(x: Expr, y: Expr) -> Expr | None:
    for factor, operand in ((x, y), (y, x)):
        if equals_const(factor, 1):
            return operand
        if equals_const(factor, -1):
            return _neg(operand) or Apply(NEG, (operand,))
    return None


def _div(x: Expr, y: Expr) -> Expr | None:
    if equals_const(y, 1):
        return x
    match y:
        case Const(value, precision) if _has_exact_reciprocal(value):
            return Apply(MUL, (x, Const(1 / value, precision)))  # strength reduction: exact for powers of two
    return None


def _has_exact_reciprocal(value: float) -> bool:
    """Whether the value is a power of two whose reciprocal is a normal number."""
    return not isinf(value) and abs(frexp(value)[0]) == 0.5 and abs(frexp(value)[1]) <= 120


def _pow(x: Expr, y: Expr) -> Expr | None:
    if equals_const(y, 1):
        return x
    if equals_const(y, 2) and _is_cheap(x):
        return Apply(MUL, (x, x))
    if equals_const(y, 3) and _is_cheap(x):
        return Apply(MUL, (Apply(MUL, (x, x)), x))  # two roundings: within 1 ulp
    if equals_const(y, -1) and x.precision.is_float:
        return Apply(BY_NAME["recip"], (x,))
    return None


def _is_cheap(x: Expr) -> bool:
    """Whether the expression may be repeated: a leaf, or its absolute value."""
    match x:
        case Apply(op, (operand,)) if op.name == "abs":
            return isinstance(operand, Load | Var)
        case _:
            return isinstance(x, Load | Var | IndexValue)


def _neg(x: Expr) -> Expr | None:
    match x:
        case Apply(op, (y,)) if op is NEG:
            return y
        case Apply(op, (a, b)) if op is SUB:
            return Apply(SUB, (b, a))
        case Apply(op, (Const(value, precision), b)) if op is MUL and precision.is_float:
            return Apply(MUL, (Const(-value, precision), b))
        case Apply(op, (a, Const(value, precision))) if op is MUL and precision.is_float:
            return Apply(MUL, (a, Const(-value, precision)))
    return None


def _fma(x: Expr, y: Expr, z: Expr) -> Expr | None:
    if equals_const(x, 1) or equals_const(y, 1):
        factor = y if equals_const(x, 1) else x
        return _add(factor, z) or Apply(ADD, (factor, z))
    if equals_const(z, 0):
        return _mul(x, y) or Apply(MUL, (x, y))
    return None


def _with_neutral_element(neutral: float) -> Rule:
    return lambda x, y: y if equals_const(x, neutral) else x if equals_const(y, neutral) else None


def _and(x: Expr, y: Expr) -> Expr | None:
    return Const(0, y.precision) if equals_const(x, 0) or equals_const(y, 0) else None


def _or(x: Expr, y: Expr) -> Expr | None:
    is_true = any(isinstance(operand, Const) and operand.value != 0 for operand in (x, y))
    return Const(1, y.precision) if is_true else None


def _where(c: Expr, x: Expr, y: Expr) -> Expr | None:
    return x if are_equal(x, y) else None


def _gate(inner: str) -> Rule:
    """Rewrites `gate(inner(x), y)` to `gate(x, y)`: the gate tests the sign or range that `inner` preserves."""

    def rule(x: Expr, y: Expr) -> Expr | None:
        match x:
            case Apply(op, (z,)) if op.name == inner:
                return Apply(BY_NAME[f"{inner}_gate"], (z, y))
        return None

    return rule


IDENTITIES: dict[str, Rule] = {
    "id": lambda x: x,
    "fst": lambda x, y: x,
    "snd": lambda x, y: y,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "neg": _neg,
    "fma": _fma,
    "max": _with_neutral_element(-INF),
    "min": _with_neutral_element(INF),
    "and": _and,
    "or": _or,
    "where": _where,
    "relu_gate": _gate("relu"),
    "sat01_gate": _gate("sat01"),
}

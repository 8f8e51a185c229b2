"""Laws that hold for every number, NaN and the infinities included; the sign of a zero excepted."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, isinf

from ocannl.ir.loops import Apply, Expr, Idx, Load, Num, Var
from ocannl.ir.ops import ADD, BY_NAME, MUL, NEG, SUB
from ocannl.opt.exact import is_number

INF = float("inf")

Rule = Callable[..., Expr | None]


def agree(a: Expr, b: Expr) -> bool:
    """Whether two expressions surely have one value, by a look at their roots."""
    if a is b:
        return True
    return isinstance(a, Num | Idx | Load | Var) and type(a) is type(b) and a == b


def _add(x: Expr, y: Expr) -> Expr | None:
    if is_number(x, 0):
        return y
    if is_number(y, 0):
        return x
    match x, y:
        case _, Apply(op, (z,)) if op is NEG:
            return Apply(SUB, (x, z))
        case Apply(op, (z,)), _ if op is NEG:
            return Apply(SUB, (y, z))
    return None


def _sub(x: Expr, y: Expr) -> Expr | None:
    if is_number(y, 0):
        return x
    match y:
        case Apply(op, (z,)) if op is NEG:
            return Apply(ADD, (x, z))
    return None


def _mul(x: Expr, y: Expr) -> Expr | None:
    for one, other in ((x, y), (y, x)):
        if is_number(one, 1):
            return other
        if is_number(one, -1):
            return _neg(other) or Apply(NEG, (other,))
    return None


def _div(x: Expr, y: Expr) -> Expr | None:
    if is_number(y, 1):
        return x
    match y:
        case Num(value, precision) if not isinf(value) and abs(frexp(value)[0]) == 0.5 and abs(frexp(value)[1]) <= 120:
            return Apply(MUL, (x, Num(1 / value, precision)))  # both round the same number
    return None


def _pow(x: Expr, y: Expr) -> Expr | None:
    if is_number(y, 1):
        return x
    if is_number(y, 2) and isinstance(x, Load | Var | Idx):
        return Apply(MUL, (x, x))
    if is_number(y, -1) and x.precision.is_float:
        return Apply(BY_NAME["recip"], (x,))
    return None


def _neg(x: Expr) -> Expr | None:
    match x:
        case Apply(op, (y,)) if op is NEG:
            return y
        case Apply(op, (a, b)) if op is SUB:
            return Apply(SUB, (b, a))
        case Apply(op, (Num(value, precision), b)) if op is MUL and precision.is_float:
            return Apply(MUL, (Num(-value, precision), b))
        case Apply(op, (a, Num(value, precision))) if op is MUL and precision.is_float:
            return Apply(MUL, (a, Num(-value, precision)))
    return None


def _fma(x: Expr, y: Expr, z: Expr) -> Expr | None:
    if is_number(x, 1) or is_number(y, 1):
        rest = y if is_number(x, 1) else x
        return _add(rest, z) or Apply(ADD, (rest, z))
    if is_number(z, 0):
        return _mul(x, y) or Apply(MUL, (x, y))
    return None


def _unchanged_by(limit: float) -> Rule:
    return lambda x, y: y if is_number(x, limit) else x if is_number(y, limit) else None


def _same(c: Expr, x: Expr, y: Expr) -> Expr | None:
    return x if agree(x, y) else None


def _gate(inner: str) -> Rule:
    """What a gate asks of `inner(x)` it may ask of `x`."""

    def rule(x: Expr, y: Expr) -> Expr | None:
        match x:
            case Apply(op, (z,)) if op.name == inner:
                return Apply(BY_NAME[f"{inner}_gate"], (z, y))
        return None

    return rule


ALGEBRA: dict[str, Rule] = {
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
    "max": _unchanged_by(-INF),
    "min": _unchanged_by(INF),
    "where": _same,
    "relu_gate": _gate("relu"),
    "sat01_gate": _gate("sat01"),
}

"""Derivatives of the primitives, and reverse-mode differentiation of formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

from ocannl.ir.assign import Call, Convert, Number
from ocannl.ir.ops import Op
from ocannl.lang.core.gamma_formulas import digamma
from ocannl.lang.core.symbolic_terms import Hole, Term, Tree, apply
from ocannl.lang.core.term_functions import exp_of_minus_square

DerivativeRule = Callable[..., Term]
_LN2 = 0.6931471805599453
_ERF_SLOPE = 2 / math.sqrt(math.pi)  # at zero


def _split_between_ties(g: Term, attained: Term, equal: Term) -> Term:
    """The gradient of an extremum: `g` for the attained operand, half of it for each of two equal ones."""
    return apply("where", attained, g, apply("where", equal, g * 0.5, 0.0))


def _pow_base(g: Term, v: Term, x: Term, y: Term) -> Term:
    match y.tree:
        case Number(2 | 2.0):
            return g * (2.0 * x)
        case Number(1 | 1.0):
            return g
        case Number(0 | 0.0):
            return g * 0.0
        case Number(p):
            return g * (p * x ** (p - 1))
    return g * apply("where", apply("eq", y, 0.0), 0.0, y * x ** (y - 1.0))


def _pow_exponent(g: Term, v: Term, x: Term, y: Term) -> Term:
    match x.tree:
        case Number(base):
            return g * (v * math.log(base)) if base > 0 else g * (0.0 if base == 0 else math.nan)
    return g * apply("where", apply("eq", x, 0.0) & (y >= 0.0), 0.0, v * apply("log", x))


def _along(x: Term, y: Term) -> Term:
    """`x / (x**2 + y**2)`, 0 at the origin, computed without overflow."""
    longer = apply("max", apply("abs", x), apply("abs", y))
    u, v = x / longer, y / longer
    return apply("where", apply("eq", longer, 0.0), 0.0, u / ((u * u + v * v) * longer))


def _mod_by(g: Term, v: Term, x: Term, y: Term) -> Term:
    """Minus the quotient floor(x / y), which is -1 where the remainder was rounded up to `y` or `y` is infinite."""
    return -(g * apply("where", apply("eq", v, y), -1.0, (x - v) / y))


DERIVATIVES: dict[str, tuple[DerivativeRule | None, ...]] = {
    # name: the cotangent of every operand, given that of the value (g), the value v and the operands; None for zero
    "id": (lambda g, v, x: g,),
    "neg": (lambda g, v, x: -g,),
    "abs": (lambda g, v, x: apply("where", x > 0.0, g, apply("where", x < 0.0, -g, 0.0)),),
    "relu": (lambda g, v, x: apply("relu_gate", x, g),),
    "sat01": (lambda g, v, x: apply("sat01_gate", x, g),),
    "exp": (lambda g, v, x: g * v,),
    "exp2": (lambda g, v, x: g * (v * _LN2),),
    "log": (lambda g, v, x: g / x,),
    "log2": (lambda g, v, x: g / (x * _LN2),),
    "sin": (lambda g, v, x: g * apply("cos", x),),
    "cos": (lambda g, v, x: -(g * apply("sin", x)),),
    "atan": (lambda g, v, x: g / (1.0 + x * x),),
    "atan2": (lambda g, v, y, x: g * _along(x, y), lambda g, v, y, x: -(g * _along(y, x))),
    "erf": (lambda g, v, x: g * (_ERF_SLOPE * exp_of_minus_square(x)),),
    "erfc": (lambda g, v, x: g * (-_ERF_SLOPE * exp_of_minus_square(x)),),
    "lgamma": (lambda g, v, x: g * digamma(x),),
    "tanh": (lambda g, v, x: g * (1.0 - v * v),),
    "sqrt": (lambda g, v, x: g / (2.0 * v),),
    "recip": (lambda g, v, x: -(g * (v * v)),),
    "recip_sqrt": (lambda g, v, x: g * (-0.5 * (v * v * v)),),
    "add": (lambda g, v, x, y: g, lambda g, v, x, y: g),
    "sub": (lambda g, v, x, y: g, lambda g, v, x, y: -g),
    "mul": (lambda g, v, x, y: g * y, lambda g, v, x, y: g * x),
    "div": (lambda g, v, x, y: g / y, lambda g, v, x, y: -(g * (v / y))),
    "pow": (_pow_base, _pow_exponent),
    "mod": (lambda g, v, x, y: g, _mod_by),
    "max": (
        lambda g, v, x, y: _split_between_ties(g, x > y, apply("eq", x, y)),
        lambda g, v, x, y: _split_between_ties(g, y > x, apply("eq", x, y)),
    ),
    "min": (
        lambda g, v, x, y: _split_between_ties(g, x < y, apply("eq", x, y)),
        lambda g, v, x, y: _split_between_ties(g, y < x, apply("eq", x, y)),
    ),
    "relu_gate": (None, lambda g, v, x, y: apply("relu_gate", x, g)),
    "sat01_gate": (None, lambda g, v, x, y: apply("sat01_gate", x, g)),
    "fst": (lambda g, v, x, y: g, None),
    "snd": (None, lambda g, v, x, y: g),
    "where": (None, lambda g, v, c, x, y: apply("where", c, g, 0.0), lambda g, v, c, x, y: apply("where", c, 0.0, g)),
    "fma": (lambda g, v, x, y, z: g * y, lambda g, v, x, y, z: g * x, lambda g, v, x, y, z: g),
}
"""Derivatives of the primitives (vector-Jacobian products); a primitive without a row is not differentiable."""


DERIVATIVE_TEXTS: dict[str, tuple[str, ...]] = {
    "atan2": ("g * y / (x**2 + y**2)", "-(g * x / (x**2 + y**2))"),
    "erf": ("g * (2 / sqrt(pi)) * exp(-(x**2))",),
    "erfc": ("-(g * (2 / sqrt(pi)) * exp(-(x**2)))",),
    "lgamma": ("g * digamma(x)",),
}
"""The mathematical form of derivatives whose computation takes care of rounding errors."""


def pullback(tree: Tree, g: Term, value: Term | None = None) -> dict[Hole, Term]:
    """Reverse-mode differentiation of a formula: the cotangents of its holes, given the cotangent `g` of its value.

    `value` is a term for the value of the formula, used instead of recomputing it.
    """
    out: dict[Hole, Term] = {}
    work: list[tuple[Tree, Term, Term | None]] = [(tree, g, value)]
    while work:
        node, cotangent, node_value = work.pop()
        match node:
            case Hole():
                out[node] = out[node] + cotangent if node in out else cotangent
            case Convert(inner, _):
                work.append((inner, cotangent, None))  # type: ignore[arg-type]
            case Call(op, args):
                operands = [Term(a) for a in args]  # type: ignore[arg-type]
                for rule, arg in reversed(list(zip(DERIVATIVES.get(op.name, ()), args, strict=False))):
                    if rule is not None:
                        result = Term(node) if node_value is None else node_value
                        work.append((arg, rule(cotangent, result, *operands), None))  # type: ignore[arg-type]
            case _:
                pass
    return out


def is_differentiable(op: Op) -> bool:
    return op.name in DERIVATIVES

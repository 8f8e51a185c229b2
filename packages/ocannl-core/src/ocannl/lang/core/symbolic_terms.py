"""Formulas over the slots of one operation, and their derivatives.

A formula is a tree of `Apply`, `Number`, `Index` and `Convert` from `ir.assign` with holes as leaves: a hole is a node
and the slot of the operation at whose index the node is read. Declarations of operations are written with `Term`s,
which build such trees by operator overloading; elaboration replaces holes by reads, once per piece of the projections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Call, Convert, Index, Number, Value
from ocannl.ir.ops import BY_NAME, Op
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode


@dataclass(frozen=True, slots=True)
class Hole:
    """A read of `node` at the index of tensor `slot`: 0 is the result, n the n-th operand."""

    node: TNode
    slot: int
    merge: bool = False


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """The index along axis `axis` (in memory order) of tensor `slot`, as a number."""

    slot: int
    axis: int


@dataclass(frozen=True, slots=True)
class ShiftedRead:
    """A hole read with the only index of tensor `along` increased by `shift`; `outside` if that is out of bounds."""

    hole: Hole
    along: int
    shift: int
    outside: float


Tree = Hole | AxisIndex | ShiftedRead | Number | Index | Call | Convert


def tree_of(value: object) -> Tree:
    """The tree of a term, or of a number in a formula. Raises: CodeError for anything else."""
    if isinstance(value, Term):
        return value.tree
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CodeError(f"{value!r} cannot stand in the formula of an operation; slots and numbers can")
    return Number(value)


def apply(name: str, *args: object) -> Term:
    op = BY_NAME[name]
    return Term(Call(op, tuple(tree_of(a) for a in args)))  # type: ignore[misc]


def convert(term: Term, kind: Precision) -> Term:
    """The value of a formula, converted to another type."""
    return Term(Convert(term.tree, kind))  # type: ignore[arg-type]


class Term:
    """A formula; operators build larger formulas."""

    __slots__ = ("tree",)
    __array_ufunc__ = None

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __add__(self, other: object) -> Term:
        return apply("add", self, other)

    def __radd__(self, other: object) -> Term:
        return apply("add", other, self)

    def __sub__(self, other: object) -> Term:
        return apply("sub", self, other)

    def __rsub__(self, other: object) -> Term:
        return apply("sub", other, self)

    def __mul__(self, other: object) -> Term:
        return apply("mul", self, other)

    def __rmul__(self, other: object) -> Term:
        return apply("mul", other, self)

    def __truediv__(self, other: object) -> Term:
        return apply("div", self, other)

    def __rtruediv__(self, other: object) -> Term:
        return apply("div", other, self)

    def __pow__(self, other: object) -> Term:
        return apply("pow", self, other)

    def __rpow__(self, other: object) -> Term:
        return apply("pow", other, self)

    def __mod__(self, other: object) -> Term:
        return apply("mod", self, other)

    def __neg__(self) -> Term:
        return apply("neg", self)

    def __lt__(self, other: object) -> Term:
        return apply("lt", self, other)

    def __le__(self, other: object) -> Term:
        return apply("le", self, other)

    def __gt__(self, other: object) -> Term:
        return apply("gt", self, other)

    def __ge__(self, other: object) -> Term:
        return apply("ge", self, other)

    def __and__(self, other: object) -> Term:
        return apply("and", self, other)

    def __or__(self, other: object) -> Term:
        return apply("or", self, other)

    def __invert__(self) -> Term:
        return apply("not", self)

    def __bool__(self) -> bool:
        raise CodeError("the formula of an operation has no truth value; use oc.where")


def instantiate(tree: Tree, read: Callable[[Hole | AxisIndex | ShiftedRead], Value]) -> Value:
    """Replaces every hole and axis index of a tree."""
    match tree:
        case Hole() | AxisIndex() | ShiftedRead():
            return read(tree)
        case Call(op, args):
            return Call(op, tuple(instantiate(a, read) for a in args))  # type: ignore[arg-type]
        case Convert(inner, precision):
            return Convert(instantiate(inner, read), precision)  # type: ignore[arg-type]
        case _:
            return tree


def with_constants_in(kind: Precision, value: Value) -> Value:
    """Converts numbers to `kind` where an operation has no other operands, which would compute in float32."""
    match value:
        case Call(op, args):
            promoted = args[1:] if op.name == "where" else args
            if all(isinstance(a, Number) for a in promoted):
                return Call(op, (*args[: -len(promoted)], *(Convert(a, kind) for a in promoted)))
            return Call(op, tuple(with_constants_in(kind, a) for a in args))
        case _:
            return value


def holes(tree: Tree) -> Iterator[Hole]:
    match tree:
        case Hole():
            yield tree
        case ShiftedRead(hole):
            yield hole
        case Call(_, args):
            for arg in args:
                yield from holes(arg)  # type: ignore[arg-type]
        case Convert(inner, _):
            yield from holes(inner)  # type: ignore[arg-type]
        case _:
            pass


# --- derivatives -----------------------------------------------------------------------------------------------------

DerivativeRule = Callable[..., Term]
_LN2 = 0.6931471805599453


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



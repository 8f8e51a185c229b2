"""Formulas over the slots of one operation.

A formula is a tree of `Apply`, `Number`, `Index` and `Convert` from `ir.assign` with holes as leaves: a hole is a node
and the slot of the operation at whose index the node is read. Declarations of operations are written with `Term`s,
which build such trees by operator overloading; elaboration replaces holes by reads, once per piece of the projections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Call, Convert, Index, Number, Value
from ocannl.ir.ops import BY_NAME
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

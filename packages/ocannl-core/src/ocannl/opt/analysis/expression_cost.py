"""Cost of scalar expressions, in units of one addition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ocannl.ir.loops import Apply, Cast, Expr, Load, When
from ocannl.ir.ops import ADD
from ocannl.ir.pair_dots import factors_of_dot
from ocannl.opt import machine_model as machine


@dataclass(frozen=True, slots=True)
class Cost:
    """`ops` counts operations, `loads` the cells read, and `nodes` the nodes of the expression."""

    ops: int
    loads: int
    nodes: int

    @property
    def work(self) -> int:
        """Operations, and loads after the first."""
        return self.ops + max(0, self.loads - 1)


def cost(expr: Expr) -> Cost:
    """Estimates the cost of an expression."""
    nodes: list[Expr] = []
    stack = [expr]
    while stack:
        nodes.append(stack.pop())
        stack += _operands(nodes[-1])
    return _total(nodes)


def shared_cost(expr: Expr) -> Cost:
    """Estimates the cost of an expression whose equal subexpressions are computed once."""
    numbers: dict[object, int] = {}  # value numbering; hashing whole subexpressions would take quadratic time
    nodes: list[Expr] = []

    def number(node: Expr) -> int:
        key = _without_operands(node), *map(number, _operands(node))
        if key not in numbers:
            numbers[key] = len(numbers)
            nodes.append(node)
        return numbers[key]

    number(expr)
    return _total(nodes)


def _total(nodes: Iterable[Expr]) -> Cost:
    ops = loads = count = 0
    for node in nodes:
        count += 1
        match node:
            case Apply(op):  # the addition of a dot product of pairs stands for all of it
                ops += machine.OP_COSTS.get(op.name, 1)
            case Cast(value, precision):
                for kind in (precision, value.precision):
                    ops += 1 if kind.is_float and kind.nbytes < 4 else 0  # emulated on many targets
            case Load():
                loads += 1
            case _:
                pass
    return Cost(ops, loads, count)


def _operands(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Apply(op) if op is ADD and (factors := factors_of_dot(node)) is not None:
            return factors
        case Apply(_, args):
            return args
        case Cast(value):
            return (value,)
        case When(_, on_true, on_false):
            return on_true, on_false
        case _:
            return ()


def _without_operands(node: Expr) -> object:
    """What distinguishes nodes with equal operands."""
    match node:
        case Apply(op):
            return op
        case Cast(_, precision):
            return precision
        case When(cond):
            return cond
        case _:
            return node

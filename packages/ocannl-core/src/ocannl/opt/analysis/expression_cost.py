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
    nodes: list[Expr] = []
    _number(expr, {}, nodes)
    return _total(nodes)


def _number(node: Expr, numbers: dict[object, int], nodes: list[Expr]) -> int:
    """The number of a node's value, as in value numbering; appends the first node of each value to `nodes`. Hashing
    whole subexpressions would take quadratic time."""
    key = _without_operands(node), *[_number(operand, numbers, nodes) for operand in _operands(node)]
    position = numbers.setdefault(key, len(numbers))
    if position == len(nodes):
        nodes.append(node)
    return position


def _total(nodes: Iterable[Expr]) -> Cost:
    ops = loads = count = 0
    for node in nodes:
        count += 1
        match node:
            case Apply():  # the addition of a dot product of pairs stands for all of it
                ops += machine.OP_COSTS.get(node.op.name, 1)
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
        case Apply():
            return (factors_of_dot(node) or node.args) if node.op is ADD else node.args
        case Cast():
            return (node.value,)
        case When():
            return node.on_true, node.on_false
        case _:
            return ()


def _without_operands(node: Expr) -> object:
    """What distinguishes nodes with equal operands; its fields have faster hashes than the node."""
    match node:
        case Load():
            return node.ref.buf, *[(index.terms, index.const) for index in node.ref.indices]
        case Apply():
            return node.op.name
        case Cast():
            return node.precision
        case When():
            return node.cond
        case _:
            return node

"""Cost of scalar expressions, in units of one addition."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.loops import Apply, Cast, Expr, Load, When
from ocannl.ir.ops import ADD
from ocannl.ir.pair_dots import factors_of_dot
from ocannl.opt import machine_model as machine


@dataclass(frozen=True, slots=True)
class Cost:
    """`work` counts operations, and loads after the first; `nodes` is the size of the expression tree."""

    work: int
    nodes: int


def cost(expr: Expr, eliminates_common_subexpressions: bool = False) -> Cost:
    """Estimates the cost of an expression; with `eliminates_common_subexpressions`, equal subtrees count once."""
    work = nodes = loads = 0
    stack, visited = [expr], set[Expr]()
    while stack:
        nodes += 1
        node = stack.pop()
        if eliminates_common_subexpressions:
            if node in visited:
                continue
            visited.add(node)
        match node:
            case Apply(op) if op is ADD and (factors := factors_of_dot(node)) is not None:
                work += 1
                stack.extend(factors)
            case Apply(op, args):
                work += machine.OP_COSTS.get(op.name, 1)
                stack.extend(args)
            case Cast(value, precision):
                for kind in (precision, value.precision):
                    work += 1 if kind.is_float and kind.nbytes < 4 else 0  # emulated on many targets
                stack.append(value)
            case When(_, on_true, on_false):
                stack += (on_true, on_false)
            case Load():
                loads += 1
            case _:
                pass
    return Cost(work + max(0, loads - 1), nodes)

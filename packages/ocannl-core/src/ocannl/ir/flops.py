"""Counts the floating-point operations that a program executes."""

from __future__ import annotations

from ocannl.ir.loops import Apply, BindIndex, Body, Expr, For, If, Let, Stmt, Store, Update
from ocannl.ir.walk import walk
from ocannl.ir.work import max_trip_count

FREE = frozenset({"id", "fst", "snd", "neg", "where", "not", "and", "or", "lt", "le", "gt", "ge", "eq", "ne"})


def flops(body: Body) -> int:
    """Upper bound of the floating-point operations: a multiply-addition counts as two, a function such as `exp` as one;
    selections, comparisons and changes of the sign are free. Loops and branches count as in `work`."""
    return sum([_stmt_flops(stmt) for stmt in body])


def _stmt_flops(stmt: Stmt) -> int:
    match stmt:
        case For():
            return max_trip_count(stmt) * flops(stmt.body)
        case BindIndex(_, value, body):
            return _evaluation(value) + flops(body)
        case If(_, on_true, on_false):
            return max(flops(on_true), flops(on_false))
        case Update(ref, op, value):
            return int(ref.buf.precision.is_float and op.name not in FREE) + _evaluation(value)
        case Store(_, value) | Let(_, value):
            return _evaluation(value)
        case _:
            return 0


def _evaluation(expr: Expr) -> int:
    operations = [node for node in walk(expr) if isinstance(node, Apply) and node.precision.is_float]
    return sum(2 if node.op.name == "fma" else 1 for node in operations if node.op.name not in FREE)

"""Estimates the work of a program: the number of scalar operations it executes, each about a nanosecond."""

from __future__ import annotations

from itertools import product

from ocannl.ir.cached_analyses import cached_on_argument
from ocannl.ir.loops import Apply, BindIndex, Body, Expr, For, If, Local, MemorySpace, Stmt, Store, Update
from ocannl.ir.ops import Domain
from ocannl.ir.walk import walk

POLL_INTERVAL_OPS = 4_000_000  # operations between two checks for cancellation: a few milliseconds
TRANSCENDENTAL_OPS = 20  # operations that a transcendental function is worth


def work(body: Body, store_cost: int = 1) -> int:
    return sum([stmt_work(stmt, store_cost) for stmt in body])


def stmt_work(stmt: Stmt, store_cost: int = 1) -> int:
    """Upper bound of the operations of a statement: a loop counts as its maximum trip count, a branch as its more
    expensive side. `store_cost` is the cost of storing an element."""
    match stmt:
        case For():
            return _loop_work(stmt, store_cost)
        case BindIndex(_, value, body):
            return 1 + _evaluation(value) + work(body, store_cost)
        case If(_, true_body, false_body):
            return max(work(true_body, store_cost), work(false_body, store_cost))
        case Store(ref, value) | Update(ref, _, value):
            return (1 if ref.buf.space is MemorySpace.LOCAL else store_cost) + _evaluation(value)
        case Local(buf, fill):
            return 0 if fill is None else buf.size
        case _:
            return 1


@cached_on_argument
def _loop_work(loop: For, store_cost: int) -> int:
    return max_trip_count(loop) * work(loop.body, store_cost)


def max_trip_count(loop: For) -> int:
    """Upper bound of the trip count."""
    low, high = loop.lo.constant, loop.hi.constant
    if low is not None and high is not None:
        return -(-max(0, high - low + 1) // loop.step)
    extent = loop.sym.extent
    for first, last in product(loop.lo.quotients, loop.hi.quotients):
        distance = last[0] - first[0]
        if first[1] == last[1] == 1 and all(sym.extent for sym in distance.syms):
            extent = min(extent, max(0, distance.range()[1] + 1))
    return -(-extent // loop.step)


def _evaluation(expr: Expr) -> int:
    return sum(TRANSCENDENTAL_OPS if isinstance(e, Apply) and e.op.domain is Domain.FLOAT else 1 for e in walk(expr))

"""How much work a program is, roughly: the number of scalar operations it executes, one of them about a nanosecond."""

from __future__ import annotations

from ocannl.ir.loops import Apply, Body, Expr, For, Home, If, Local, Pick, Stmt, Store, Update
from ocannl.ir.ops import Domain
from ocannl.ir.walk import walk

STRETCH = 4_000_000  # between two looks at whether a program has been cancelled: some milliseconds
TRANSCENDENTAL = 20  # as much as so many additions


def work(body: Body, written: int = 1) -> int:
    return sum([work_of(stmt, written) for stmt in body])


def work_of(stmt: Stmt, written: int = 1) -> int:
    """Loops count with all values that their symbols may have; of two branches the longer one counts. `written` is what
    counts for writing a cell of memory."""
    match stmt:
        case For():
            return iterations(stmt) * work(stmt.body, written)
        case Pick(_, value, body):
            return 1 + _evaluation(value) + work(body, written)
        case If(_, then, orelse):
            return max(work(then, written), work(orelse, written))
        case Store(ref, value) | Update(ref, _, value):
            return (1 if ref.buf.home is Home.REG else written) + _evaluation(value)
        case Local(buf, fill):
            return 0 if fill is None else buf.size
        case _:
            return 1


def iterations(loop: For) -> int:
    """At most."""
    low, high = loop.lo.constant, loop.hi.constant
    extent = loop.sym.extent if low is None or high is None else max(0, high - low + 1)
    return -(-extent // loop.step)


def _evaluation(expr: Expr) -> int:
    return sum(TRANSCENDENTAL if isinstance(e, Apply) and e.op.domain is Domain.FLOAT else 1 for e in walk(expr))

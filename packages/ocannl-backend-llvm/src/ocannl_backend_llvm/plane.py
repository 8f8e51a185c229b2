"""Straight-line code for a plane of lanes, rows of vectors.

Cells that lie side by side along the rows, and apart along the lanes, are read or written as vectors of the former and
turned into the latter in registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy

from ocannl.ir.loops import Expr, For, Let, Load, Ref, Stmt, Store, Update, When
from ocannl.ir.walk import children
from ocannl_backend_llvm.build import Builder
from ocannl_backend_llvm.lanes import Lanes
from ocannl_backend_llvm.straight import Straight
from ocannl_backend_llvm.types import HELD


class Plane:
    """The code of all iterations of a loop over lanes around another one; each statement in all of them before the
    next. `one` is the code of what they share."""

    def __init__(self, one: Straight, rows: For, lanes: For) -> None:
        first, last = rows.lo.constant, rows.hi.constant
        assert first is not None and last is not None
        self.one, self.sym, self.first = one, rows.sym, first
        self.rows: list[_Row] = []
        for _ in range(first, last + 1):
            mine = copy(one)
            mine.names = dict(one.names)
            self.rows.append(_Row(mine, lanes))
        self.lanes = lanes.sym
        self.wide = self.rows[0].wide
        for stmt in lanes.body:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        turned: dict[Ref, list[str]] = {}
        for ref in _certain(stmt.value) if isinstance(stmt, Let | Store | Update) else ():
            if ref not in turned and self.turns(ref):
                turned[ref] = self.gather(ref)
        values: list[str] = []
        for n, row in enumerate(self.rows):
            self.one.indices.bind(self.sym, self.first + n)
            row.turned = {ref: vectors[n] for ref, vectors in turned.items()}
            if isinstance(stmt, Store) and self.turns(stmt.ref):
                values.append(self.wide.operand(HELD[stmt.value.precision], row.value(stmt.value)))
            else:
                row.statement(stmt)
        if isinstance(stmt, Store) and values:
            self.scatter(stmt.ref, values)

    def turns(self, ref: Ref) -> bool:
        return abs(ref.stride(self.lanes)) > 1 and ref.stride(self.sym) == 1

    def places(self, ref: Ref) -> Iterator[str]:
        """Where the cells of each lane begin."""
        self.one.indices.bind(self.sym, self.first)
        first, step, held = self.one.place(ref), ref.stride(self.lanes), HELD[ref.buf.precision]
        for lane in range(self.wide.width):
            yield self.one.b.let(f"getelementptr inbounds {held}, ptr {first}, i64 {lane * step}", "at")

    def gather(self, ref: Ref) -> list[str]:
        """The cells, a vector for each row."""
        held, align, count = HELD[ref.buf.precision], ref.buf.precision.nbytes, len(self.rows)
        b = self.one.b
        columns = [b.let(f"load <{count} x {held}>, ptr {at}, align {align}", "column") for at in self.places(ref)]
        return transposed(b, count, held, columns)

    def scatter(self, ref: Ref, rows: list[str]) -> None:
        held, align, count = HELD[ref.buf.precision], ref.buf.precision.nbytes, len(self.rows)
        for at, column in zip(self.places(ref), transposed(self.one.b, self.wide.width, held, rows), strict=True):
            self.one.b.line(f"store <{count} x {held}> {column}, ptr {at}, align {align}")


class _Row(Lanes):
    """The lanes of a row; of some cells there are vectors already."""

    turned: dict[Ref, str]

    def gather(self, ref: Ref) -> str:
        return self.turned.get(ref) or super().gather(ref)


def transposed(b: Builder, lanes: int, held: str, vectors: list[str]) -> list[str]:
    """For each lane the vector of what it has in all vectors.

    In squares of 2^n lanes, n times: what lies above the diagonal changes places with what lies below it, first of
    single lanes, then of pairs, and so on.
    """
    count, size = len(vectors), 1 << (len(vectors) - 1).bit_length()
    width = -(-lanes // size) * size

    def picked(length: int, one: str, other: str, which: Iterable[int]) -> str:
        lanes = list(which)
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        vector = f"<{length} x {held}>"
        return b.let(f"shufflevector {vector} {one}, {vector} {other}, <{len(lanes)} x i32> <{mask}>")

    padded = (*range(lanes), *[0] * (width - lanes))
    rows = vectors if width == lanes else [picked(lanes, x, "poison", padded) for x in vectors]
    rows = [*rows, *["poison"] * (size - count)]
    for step in (1 << n for n in range(size.bit_length() - 1)):
        for n in range(size):
            if n & step == 0 and rows[n] != "poison":
                one, other = rows[n], rows[n + step]
                rows[n] = picked(width, one, other, (width + x - step if x & step else x for x in range(width)))
                rows[n + step] = picked(width, one, other, (width + x if x & step else x + step for x in range(width)))
    if width == count:
        return rows[:lanes]
    starts = (lane // size * size for lane in range(lanes))
    return [picked(width, rows[n % size], "poison", range(x, x + count)) for n, x in enumerate(starts)]


def _certain(expr: Expr) -> Iterator[Ref]:
    """The cells that are read whatever holds."""
    match expr:
        case Load(ref):
            yield ref
        case When():
            pass
        case _:
            for part in children(expr):
                yield from _certain(part)  # type: ignore[arg-type]

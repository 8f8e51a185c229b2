"""Straight-line code for a plane of lanes, rows of vectors.

Cells that lie side by side along the rows, and apart along the lanes, are read or written as vectors of the former and
turned into the latter in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from ocannl.codegen import Document
from ocannl.codegen.transpose import Turning, exchanges, square
from ocannl.ir.loops import For, Home, Let, Load, Ref, Stmt, Store, Update
from ocannl.ir.names import identifier
from ocannl.ir.touch import storage
from ocannl_backend_llvm.build import MANGLED, WIDE, Builder, Module
from ocannl_backend_llvm.scalar import Straight
from ocannl_backend_llvm.types import HELD
from ocannl_backend_llvm.vector import Lanes, Wide

ROWS, CELLS = ("%rows", "%apart"), ("%cells", "%step")
PARAMS = "ptr noalias %rows, i64 %apart, ptr noalias %cells, i64 %step"
"""Rows that are vectors, and cells that lie side by side along the rows, and apart along the lanes."""


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
        self.turning = Turning(rows.sym, lanes.sym)
        self.wide = self.rows[0].wide
        for stmt in lanes.body:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, Store) and isinstance(stmt.value, Load) and self.moved(stmt.ref, stmt.value.ref):
            return
        reads = self.turning.read(stmt.value) if isinstance(stmt, Let | Store | Update) else ()
        turned = {ref: self.gather(ref) for ref in reads}
        rows = self.array(stmt.ref) if isinstance(stmt, Store) and self.turning.turns(stmt.ref) else ""
        for n, row in enumerate(self.rows):
            self.one.indices.bind(self.sym, self.first + n)
            row.turned = {ref: (array, n) for ref, array in turned.items()}
            if isinstance(stmt, Store) and rows:
                held = HELD[stmt.value.precision]
                value = self.wide.operand(held, row.value(stmt.value))
                self.one.b.line(f"store {self.wide.type(held)} {value}, ptr {_cell(self.wide, held, rows, n)}")
            else:
                row.statement(stmt)
        if isinstance(stmt, Store) and rows:
            self.scatter(stmt.ref, rows)

    def moved(self, target: Ref, source: Ref) -> bool:
        """Copies cells from where they lie one way to where they lie the other way, if these are such. What is in
        registers stays there: it has no place that a function could be told."""
        row, lane = self.turning.row, self.turning.lane
        if Home.REG in (target.buf.home, source.buf.home) or target.buf.precision is not source.buf.precision:
            return False
        if storage(target.buf) == storage(source.buf):
            return False
        for made, turned, straight in ((_take, source, target), (_put, target, source)):
            if self.turning.turns(turned) and straight.stride(lane) == 1:
                self.turned(made, turned, self.place(straight), straight.stride(row))
                return True
        return False

    def gather(self, ref: Ref) -> str:
        """An array with a vector of the cells of each row."""
        rows = self.array(ref)
        self.turned(_take, ref, rows, square(self.wide.width))
        return rows

    def scatter(self, ref: Ref, rows: str) -> None:
        self.turned(_put, ref, rows, square(self.wide.width))

    def turned(self, made: Callable[[Module, str, int, int], str], ref: Ref, rows: str, apart: int) -> None:
        """Between the cells and rows so many cells apart."""
        name = made(self.one.b.module, HELD[ref.buf.precision], len(self.rows), self.wide.width)
        cells = f"ptr {self.place(ref)}, i64 {ref.stride(self.turning.lane)}"
        self.one.b.line(f"call void @{name}(ptr {rows}, i64 {apart}, {cells})")

    def array(self, ref: Ref) -> str:
        """Memory for a vector of each row, which begin as far apart as if the number of lanes were a power of two."""
        name = f"%{self.one.b.fresh(identifier(ref.buf.name))}"
        self.one.allocas.line(f"  {name} = alloca [{len(self.rows)} x {self.wide.type(HELD[ref.buf.precision])}]")
        return name

    def place(self, ref: Ref) -> str:
        """Where the cells of the first lane begin."""
        self.one.indices.bind(self.sym, self.first)
        return self.one.place(ref)


class _Row(Lanes):
    """The lanes of a row; of some cells there are vectors already."""

    turned: dict[Ref, tuple[str, int]]  # an array, and which of its vectors

    def gather(self, ref: Ref) -> str:
        if ref not in self.turned:
            return super().gather(ref)
        held = HELD[ref.buf.precision]
        return self.wide.let(f"load {self.wide.type(held)}, ptr {_cell(self.wide, held, *self.turned[ref])}", "row")


def _cell(wide: Wide, held: str, array: str, n: int) -> str:
    return wide.let(f"getelementptr inbounds {wide.type(held)}, ptr {array}, i64 {n}", "at")


def _put(module: Module, held: str, count: int, width: int) -> str:
    """The function that writes so many rows into cells that lie side by side along the rows."""

    def body(b: Builder) -> None:
        rows = [b.let(f"load <{width} x {held}>, ptr {at}, align 1") for at in _steps(b, held, *ROWS, count)]
        columns = transposed(b, width, held, rows)
        for at, column in zip(_steps(b, held, *CELLS, width), columns, strict=True):
            b.line(f"store <{count} x {held}> {column}, ptr {at}, align 1")

    return _helper(module, f"ocannl-put.{count}.v{width}{MANGLED[held]}", body)


def _take(module: Module, held: str, count: int, width: int) -> str:
    """The function that reads the cells as rows."""

    def body(b: Builder) -> None:
        columns = [b.let(f"load <{count} x {held}>, ptr {at}, align 1") for at in _steps(b, held, *CELLS, width)]
        rows = transposed(b, count, held, columns)
        for at, row in zip(_steps(b, held, *ROWS, count), rows, strict=True):
            b.line(f"store <{width} x {held}> {row}, ptr {at}, align 1")

    return _helper(module, f"ocannl-take.{count}.v{width}{MANGLED[held]}", body)


def _helper(module: Module, name: str, body: Callable[[Builder], None]) -> str:
    if not module.has(name):
        doc = Document()
        doc.line(f"define void @{name}({PARAMS}) nounwind noinline {WIDE} {{")
        body(Builder(module, doc))
        doc.line("  ret void")
        doc.line("}")
        module.define(name, doc.text())
    return name


def _steps(b: Builder, held: str, array: str, step: str, count: int) -> list[str]:
    far = [b.let(f"mul nsw i64 {step}, {n}") for n in range(count)]
    return [b.let(f"getelementptr inbounds {held}, ptr {array}, i64 {offset}", "at") for offset in far]


def transposed(b: Builder, lanes: int, held: str, vectors: list[str]) -> list[str]:
    """For each lane the vector of what it has in all vectors (see `exchanges`)."""
    count, size = len(vectors), square(len(vectors))
    width = -(-lanes // size) * size

    def picked(length: int, one: str, other: str, lanes: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        vector = f"<{length} x {held}>"
        return b.let(f"shufflevector {vector} {one}, {vector} {other}, <{len(lanes)} x i32> <{mask}>")

    padded = (*range(lanes), *[0] * (width - lanes))
    rows = vectors if width == lanes else [picked(lanes, x, "poison", padded) for x in vectors]
    rows = [*rows, *["poison"] * (size - count)]
    for step, above, below in exchanges(size, width):
        for n in range(size):
            if n & step == 0 and rows[n] != "poison":
                one, other = rows[n], rows[n + step]
                rows[n], rows[n + step] = (picked(width, one, other, mask) for mask in (above, below))
    if width == count:
        return rows[:lanes]
    starts = (lane // size * size for lane in range(lanes))
    return [picked(width, rows[n % size], "poison", range(x, x + count)) for n, x in enumerate(starts)]

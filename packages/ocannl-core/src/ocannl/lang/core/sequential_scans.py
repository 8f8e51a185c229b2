"""Prefix scans as loops over the scanned axis: one operation for each cell, on vectors of the cells of other axes.

    for a:                                      # blocks of about sqrt(n) cells
      within[j] = identity
      for b:
        within[j] = within[j] op x[B*a + b, j]
        y[B*a + b, j] = before[j] op within[j]
      before[j] = before[j] op within[j]

The error of a sum of n cells grows with sqrt(n). Results of exact operations need no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Comp, Convert, Loop, Number, Origin, Piece, Read, Seq, Value
from ocannl.ir.index_substitution import substitute
from ocannl.ir.ops import MAX, MIN, Op, neutral_element
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode, temporary_of

MIN_ROW = 16  # cells, to fill the widest vectors
MAX_ROW = 4096  # cells, so that the rows within and before a block stay in the first cache


@dataclass(frozen=True, slots=True)
class ScanLoops:
    """The loops of a scan. `source` and `indices` are the value and the indices of the result at a `position` of the
    scanned axis; `outer` and `inner` are the loops over the axes before and after it."""

    target: TNode
    accum: Op | None
    op: Op
    is_reversed: bool
    precision: Precision
    position: Sym
    source: Callable[[Affine], Value]
    indices: Callable[[Affine], tuple[Affine, ...]]
    outer: tuple[Sym, ...]
    inner: tuple[Sym, ...]
    origin: Origin

    def code(self) -> Comp:
        within, before = self._node("within"), self._node("before")
        strips = [_Strip(self, rows, within, before) for rows in divide_into_rows(self.outer, self.inner)]
        return Seq(tuple([strip.code() for strip in strips]))

    def _node(self, name: str) -> TNode:
        """A temporary node of all axes but the scanned one."""
        dims = tuple([sym.extent for sym in (*self.outer, *self.inner)])
        return temporary_of(self.target, name, dims, self.precision)


@dataclass(frozen=True, slots=True)
class RowLoops:
    """Rows of cells, given by `cells`, for all iterations of `loops`; `values` are the indices of other loops."""

    loops: tuple[Sym, ...]
    cells: tuple[Sym, ...]
    values: dict[Sym, Affine]

    def in_loops(
        self, body: Sequence[Comp], private: tuple[TNode, ...], overwritten: tuple[TNode, ...] = ()
    ) -> Comp:
        """Returns the loops around the code of a row."""
        for sym in reversed(self.loops):
            body = [Loop(sym, Seq(tuple(body)), private, overwritten)]
        return substitute(Seq(tuple(body)), self.values)


def divide_into_rows(outer: tuple[Sym, ...], inner: tuple[Sym, ...], max_row: int | None = None) -> list[RowLoops]:
    """Divides all cells into rows of the cells of trailing axes, and of a part of the axis before them, which have at
    most `max_row` cells."""
    max_row = MAX_ROW if max_row is None else max_row
    axis, size = len(inner), 1
    while axis and size * inner[axis - 1].extent <= max_row:
        axis -= 1
        size *= inner[axis].extent
    cells = inner[axis:]
    values = {sym: iteration(sym.name, sym.extent) for sym in (*outer, *inner[: max(0, axis - 1)])}
    if not axis:
        return [RowLoops(tuple(values.values()), cells, _affine(values))]
    divided, length = inner[axis - 1], max_row // size
    count, tail = divmod(divided.extent, length)
    strip, rows = iteration(f"{divided.name}_row", count), []
    for loops, start, extent in (((strip,), Affine.of(strip) * length, length), ((), Affine.of(count * length), tail)):
        if extent:
            cell = Sym(divided.name, 0, extent - 1)
            indices = {**_affine(values), divided: start + Affine.of(cell)}
            rows.append(RowLoops((*values.values(), *loops), (cell, *cells), indices))
    return rows


@dataclass(frozen=True, slots=True)
class _Strip:
    """The code of all rows of one size."""

    scan: ScanLoops
    rows: RowLoops
    within: TNode
    before: TNode

    def code(self) -> Comp:
        body = self._in_one_block() if self._is_exact else self._in_blocks()
        return self.rows.in_loops(body, self._private, self._overwritten)

    @property
    def _private(self) -> tuple[TNode, ...]:
        return (self.within,) if self._is_exact else (self.within, self.before)

    @property
    def _overwritten(self) -> tuple[TNode, ...]:
        return () if self.scan.accum is not None else (self.scan.target,)

    @property
    def _is_exact(self) -> bool:
        return self.scan.op in (MAX, MIN) or not self.scan.precision.is_float

    def _in_one_block(self) -> list[Comp]:
        cell = iteration(self.scan.position.name, self.scan.position.extent)
        return [self._clear(self.within), self._cells(cell, Affine.of(cell), self._read(self.within))]

    def _in_blocks(self) -> list[Comp]:
        name, n = self.scan.position.name, self.scan.position.extent
        size = isqrt(n)
        count, tail = divmod(n, size)
        prefix = Call(self.scan.op, (self._read(self.before), self._read(self.within)))

        def block(start: Affine, size: int) -> list[Comp]:
            cell = iteration(name, size)
            return [self._clear(self.within), self._cells(cell, start + Affine.of(cell), prefix)]

        number = iteration(f"{name}_block", count)
        carry = self._update(self.before, self._read(self.within))
        full = Loop(number, Seq((*block(Affine.of(number) * size, size), carry)), self._private, self._overwritten)
        return [self._clear(self.before), full, *(block(Affine.of(count * size), tail) if tail else [])]

    def _cells(self, cell: Sym, position: Affine, prefix: Value) -> Comp:
        """The loop over the cells of a block."""
        scan = self.scan
        at = Affine.of(scan.position.extent - 1) - position if scan.is_reversed else position
        stored = Piece(self.rows.cells, scan.indices(at), Convert(prefix, scan.target.precision))
        store = Assign(scan.target, scan.accum, False, (stored,), scan.origin)
        return Loop(cell, Seq((self._update(self.within, scan.source(at)), store)), self._private, self._overwritten)

    def _clear(self, node: TNode) -> Assign:
        identity = Number(neutral_element(self.scan.op, self.scan.precision))
        return Assign(node, None, False, (Piece(self.rows.cells, self._indices, identity),), self.scan.origin)

    def _update(self, node: TNode, value: Value) -> Assign:
        piece = Piece(self.rows.cells, self._indices, value)
        return Assign(node, self.scan.op, False, (piece,), self.scan.origin)

    def _read(self, node: TNode) -> Value:
        return Read(node, self._indices)

    @property
    def _indices(self) -> tuple[Affine, ...]:
        return tuple(map(Affine.of, (*self.scan.outer, *self.scan.inner)))


def iteration(name: str, extent: int) -> Sym:
    """Returns a symbol of a sequential loop."""
    return Sym(name, 0, extent - 1, SymKind.ITERATION)


def _affine(syms: dict[Sym, Sym]) -> dict[Sym, Affine]:
    return {sym: Affine.of(value) for sym, value in syms.items()}

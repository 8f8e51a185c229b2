"""Prefix scans by an associative and commutative operation, in blocks of cells.

    total[a]     = x[B*a] op ... op x[B*a + B-1]
    before[a]    = total[0] op ... op total[a - 1]    the exclusive scan of total, in blocks as well
    within[a, b] = x[B*a] op ... op x[B*a + b]        over all cells of the block; those after b are masked
    y[B*a + b]   = before[a] op within[a, b]

The cells of a block are the lanes of vectors, so a block takes B operations on vectors, none of which waits for the
preceding cell. The cells after the last full block are a shorter block, so no read is guarded; a reversed scan has the
shorter block at the start. The error of sums grows with the logarithm of the length. Where the cells of other axes fill
vectors, the masked terms are wasted on CPUs: they execute the sequential form (`sequential_scans.py`).

Source: Blelloch 1990, section 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Convert,
    Index,
    Number,
    Origin,
    ParallelForm,
    Piece,
    Read,
    Seq,
    Value,
    call,
)
from ocannl.ir.ops import Op, neutral_element
from ocannl.ir.precision import Precision
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import TNode, temporary_of
from ocannl.lang.core.sequential_scans import MIN_ROW, ScanLoops
from ocannl.lang.core.symbolic_terms import AxisIndex, Hole, ShiftedRead, Tree, instantiate

BLOCK = 16  # the float32 lanes of the widest vectors

At = Callable[[Affine], Value]


@dataclass(frozen=True, slots=True)
class SlotScan:
    """`target <- target accum scan(tree)`, or a store without `accum`, along the axis of tensor `along`, which has one
    axis. The scan is inclusive, from the last cell to the first if it `is_reversed`, and computed in `precision`."""

    target: Hole
    accum: Op | None
    tree: Tree
    op: Op
    along: int
    is_reversed: bool
    precision: Precision
    projections: Projections

    def elaborate(self, origin: Origin) -> Seq:
        elaboration = _Elaboration(self, origin)
        parallel, sequential = elaboration.code(), elaboration.sequential_form()
        return parallel if sequential is None else ParallelForm(parallel.items, sequential=sequential)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """Prefixes at the cells `index` for all iterations of loops."""

    loops: tuple[Sym, ...]
    index: Affine
    value: Value


class _Elaboration:
    """The assignments of a scan."""

    def __init__(self, scan: SlotScan, origin: Origin) -> None:
        (self.projection,) = scan.projections.pieces
        (along,) = self.projection.at(scan.along) or ()
        assert along.only_sym is not None
        self.scan, self.origin, self.position = scan, origin, along.only_sym
        self.loops = tuple(loop for loop in self.projection.loops if loop is not self.position)
        self.identity = neutral_element(scan.op, scan.precision)
        self.items: list[Assign] = []

    def code(self) -> Seq:
        scan, target = self.scan, self.scan.target.node
        prefixes = self._prefixes(self._source, self.position.extent, "le" if scan.is_reversed else "ge")
        stored = [replace(prefix, value=Convert(prefix.value, target.precision)) for prefix in prefixes]
        self._add_prefixes(target, scan.accum, stored)
        return Seq(tuple(self.items))

    def sequential_form(self) -> Comp | None:
        """Returns the scan as loops over the scanned axis, if the axes after it fill vectors."""
        scan, indices = self.scan, self.projection.at(self.scan.target.slot) or ()
        syms = tuple([index.only_sym for index in indices if index.only_sym is not None])
        if set(syms) != set(self.projection.loops):
            return None
        axis = syms.index(self.position)
        inner = syms[axis + 1 :]
        if prod(sym.extent for sym in inner) < MIN_ROW:
            return None
        return ScanLoops(
            scan.target.node, scan.accum, scan.op, scan.is_reversed, scan.precision, self.position, self._source,
            self._indices, syms[:axis], inner, self.origin,
        ).code()  # fmt: skip

    def _prefixes(self, source: At, n: int, comparison: str) -> list[_Prefix]:
        """Returns the prefixes of `n` values: of the cells of the same block for which the comparison holds between the
        cell of the result and theirs, and of all preceding blocks."""
        op = self.scan.op
        count, tail = divmod(n, BLOCK)
        if n <= BLOCK:
            return [self._within(source, (self._cell(n),), Affine.of(0), comparison)]
        block, cell = Sym(f"{self.position.name}_block", 0, count - 1), self._cell(BLOCK)
        start = Affine.of(block) * BLOCK + (tail if self.scan.is_reversed else 0)
        total = self._totals(source, block, start, cell)
        before = self._preceding(total, count)
        full = self._within(source, (block, cell), start, comparison)
        prefixes = [replace(full, value=Call(op, (before(Affine.of(block)), full.value)))]
        if tail:
            adjacent, start = (0, Affine.of(0)) if self.scan.is_reversed else (count - 1, Affine.of(n - tail))
            within_tail = self._within(source, (self._cell(tail),), start, comparison)
            all_full = Call(op, (before(Affine.of(adjacent)), total(Affine.of(adjacent))))
            prefixes.append(replace(within_tail, value=Call(op, (all_full, within_tail.value))))
        return prefixes

    def _within(self, source: At, blocks: tuple[Sym, ...], start: Affine, comparison: str) -> _Prefix:
        """Stores and returns the prefixes within blocks; the last loop is that over the cells of a block."""
        cell = blocks[-1]
        other = Sym(f"{self.position.name}_other", cell.lo, cell.hi)
        is_included = call(comparison, Index(Affine.of(cell)), Index(Affine.of(other)))
        value = source(start + Affine.of(other))
        masked: Value = call("where", is_included, value, Number(self.identity))
        node, cells = self._node("within", *(sym.extent for sym in blocks)), self._indices(*map(Affine.of, blocks))
        self._add(node, self.scan.op, Piece((*self.loops, *blocks, other), cells, masked))
        return _Prefix(blocks, start + Affine.of(cell), Read(node, cells))

    def _totals(self, source: At, block: Sym, start: Affine, cell: Sym) -> At:
        """Stores the results of all full blocks."""
        node, indices = self._node("total", block.extent), self._indices(Affine.of(block))
        piece = Piece((*self.loops, block, cell), indices, source(start + Affine.of(cell)))
        self._add(node, self.scan.op, piece)
        return lambda at: Read(node, self._indices(at))

    def _preceding(self, total: At, count: int) -> At:
        """Stores the exclusive scan of the results of so many blocks."""
        node = self._node("before", count)
        self._add_prefixes(node, None, self._prefixes(total, count, "lt" if self.scan.is_reversed else "gt"))
        return lambda at: Read(node, self._indices(at))

    def _add_prefixes(self, node: TNode, accum: Op | None, prefixes: Sequence[_Prefix]) -> None:
        pieces = [Piece((*self.loops, *prefix.loops), self._indices(prefix.index), prefix.value) for prefix in prefixes]
        self._add(node, accum, *pieces, is_cleared=accum is None)

    def _add(self, node: TNode, accum: Op | None, *pieces: Piece, is_cleared: bool = True) -> None:
        self.items.append(Assign(node, accum, is_cleared, pieces, self.origin))

    # --- cells ---

    def _cell(self, n: int) -> Sym:
        """Returns a loop over the cells of a block."""
        return Sym(self.position.name, 0, n - 1)

    def _indices(self, *along: Affine) -> tuple[Affine, ...]:
        """The indices of the target with others in place of that along the scanned axis."""
        indices: list[Affine] = []
        for index in self.projection.at(self.scan.target.slot) or ():
            indices.extend(along if index.only_sym is self.position else [index])
        return tuple(indices)

    def _node(self, name: str, *sizes: int) -> TNode:
        """A temporary node that has axes of these sizes in place of the scanned one."""
        slot, like = self.scan.target.slot, self.scan.target.node
        dims: list[int] = []
        for index, size in zip(self.projection.at(slot) or (), self.scan.projections.dims(slot), strict=True):
            dims.extend(sizes if index.only_sym is self.position else [size])
        return temporary_of(like, name, tuple(dims), self.scan.precision)

    def _source(self, at: Affine) -> Value:
        """A scanned value."""

        def read(leaf: Hole | AxisIndex | ShiftedRead) -> Value:
            assert isinstance(leaf, Hole)
            indices = self.projection.at(leaf.slot)
            assert indices is not None
            return Read(leaf.node, tuple(index.substitute({self.position: at}) for index in indices))

        return Convert(instantiate(self.scan.tree, read), self.scan.precision)

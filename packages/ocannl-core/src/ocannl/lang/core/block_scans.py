"""Prefix scans by an associative and commutative operation, in blocks of cells.

    total[a]     = x[B*a] op ... op x[B*a + B-1]
    before[a]    = total[0] op ... op total[a - 1]    the exclusive scan of total, in blocks as well
    within[a, b] = x[B*a] op ... op x[B*a + b]        over all cells of the block; those after b are masked
    y[B*a + b]   = before[a] op within[a, b]

The cells of a block are the lanes of vectors, so a block takes B operations on vectors, none of which waits for the
preceding cell. The error of sums grows with the logarithm of the length.

Source: Blelloch 1990, section 1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ocannl.ir.affine import Affine, Sym, bounds_condition
from ocannl.ir.assign import Assign, Call, Convert, Index, Number, Origin, Piece, Read, Seq, Value
from ocannl.ir.ops import BY_NAME, Op, neutral_element
from ocannl.ir.precision import Precision
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Role, TNode
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
        return _Elaboration(self, origin).code()


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
        scan, n = self.scan, self.position.extent
        blocks, index = self._syms(n)
        target, value = scan.target.node, self._prefixes(self._source, blocks, "le" if scan.is_reversed else "ge")
        stored = Convert(value, target.precision)
        piece = Piece((*self.loops, *blocks), self._indices(index), stored, bounds_condition(index, n))
        self.items.append(Assign(target, scan.accum, scan.accum is None, (piece,), self.origin))
        return Seq(tuple(self.items))

    def _prefixes(self, source: At, blocks: tuple[Sym, ...], comparison: str) -> Value:
        """Returns the prefix of values at a cell: `blocks` are its loops, over blocks and in a block. A prefix includes
        the cells of its block with which the comparison holds."""
        *outer, cell = blocks
        other = Sym(f"{self.position.name}_other", cell.lo, cell.hi)
        start = Affine.sum([(BLOCK, block) for block in outer])
        is_included = Call(BY_NAME[comparison], (Index(Affine.of(cell)), Index(Affine.of(other))))
        masked: Value = Call(BY_NAME["where"], (is_included, source(start + Affine.of(other)), Number(self.identity)))
        node, cells = self._node("within", *(sym.extent for sym in blocks)), self._indices(*map(Affine.of, blocks))
        self._add(node, self.scan.op, Piece((*self.loops, *blocks, other), cells, masked))
        within = Read(node, cells)
        if not outer:
            return within
        (block,) = outer
        before = self._preceding(self._totals(source, block, cell), block.extent)
        return Call(self.scan.op, (before(Affine.of(block)), within))

    def _totals(self, source: At, block: Sym, cell: Sym) -> At:
        """Stores the results of all blocks."""
        value = source(Affine.sum([(BLOCK, block), (1, cell)]))
        node, indices = self._node("total", block.extent), self._indices(Affine.of(block))
        self._add(node, self.scan.op, Piece((*self.loops, block, cell), indices, value))
        return lambda at: self._read(node, self._indices(at))

    def _preceding(self, total: At, count: int) -> At:
        """Stores the exclusive scan of the results of so many blocks."""
        blocks, index = self._syms(count)
        value = self._prefixes(total, blocks, "lt" if self.scan.is_reversed else "gt")
        node, indices = self._node("before", count), self._indices(index)
        self._add(node, None, Piece((*self.loops, *blocks), indices, value, bounds_condition(index, count)))
        return lambda at: self._read(node, self._indices(at))

    def _add(self, node: TNode, accum: Op | None, piece: Piece) -> None:
        self.items.append(Assign(node, accum, True, (piece,), self.origin))

    # --- cells ---

    def _syms(self, n: int) -> tuple[tuple[Sym, ...], Affine]:
        """Returns loops over blocks and the cells of a block, and the index of the cell."""
        name = self.position.name
        if n <= BLOCK:
            cell = Sym(name, 0, n - 1)
            return (cell,), Affine.of(cell)
        block, cell = Sym(f"{name}_block", 0, -(-n // BLOCK) - 1), Sym(name, 0, BLOCK - 1)
        return (block, cell), Affine.sum([(BLOCK, block), (1, cell)])

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
        attributes = Role.RESULT, lambda: tuple(dims), lambda: self.scan.precision
        return TNode(f"{like.label}.{name}", *attributes, where=like.where)

    def _source(self, at: Affine) -> Value:
        """A scanned value, or the identity outside."""

        def read(leaf: Hole | AxisIndex | ShiftedRead) -> Value:
            assert isinstance(leaf, Hole)
            indices = self.projection.at(leaf.slot)
            assert indices is not None
            return self._read(leaf.node, tuple(index.substitute({self.position: at}) for index in indices))

        return Convert(instantiate(self.scan.tree, read), self.scan.precision)

    def _read(self, node: TNode, indices: tuple[Affine, ...]) -> Value:
        in_bounds = all(bounds_condition(index, size).is_true for index, size in zip(indices, node.dims, strict=True))
        return Read(node, indices, None if in_bounds else self.identity)

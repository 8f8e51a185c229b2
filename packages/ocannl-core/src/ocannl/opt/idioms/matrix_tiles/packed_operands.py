"""Operands of products of tiles in buffers of their own: rows of padded terms, and panels of pairs of terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Buf, Load, Local, MemorySpace, Ref, Stmt, Store, loop, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup, local_buffer
from ocannl.opt.analysis.nests import as_statement, wrap_in_loops
from ocannl.opt.idioms.matrix_tiles.matrix_product import MatrixProduct

TRANSPOSED_TERMS = 64  # of a panel that are transposed at a time, in local memory


@dataclass(frozen=True, slots=True)
class Blocks:
    """`count` blocks of `size` iterations along a loop, from block number `first`."""

    first: Affine
    count: int
    size: int


def blocks_of(extent: int, size: int) -> list[Blocks]:
    """Divides a loop into full blocks and a partial one; empty ones are omitted."""
    full, rest = divmod(extent, size)
    return [*counted_blocks(0, full, size), *counted_blocks(full, 1, rest)]


def counted_blocks(first: int, count: int, size: int) -> list[Blocks]:
    return [Blocks(Affine((), first), count, size)] if count and size else []


def at(ref: Ref, values: Mapping[Sym, Affine]) -> Ref:
    """Substitutes values for symbols in the indices of a cell."""
    return Ref(ref.buf, tuple([index.substitute(values) for index in ref.indices]))


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """A cell of an operand, in a buffer that `copies` fill. Cells of padding stay zero."""

    ref: Ref
    copies: tuple[Stmt, ...] = ()
    is_padded: bool = False


def pack_left(product: MatrixProduct, names: Namer, space: MemorySpace) -> PackedOperand:
    """Packs the left operand in rows of padded terms."""
    outer, row, term = _outer_syms(product, product.left), product.row, product.term
    shape = (*(sym.extent for sym in outer), row.extent, product.padded_terms)
    ref = Ref(_buffer(product.left, shape, names, space), tuple([Affine.of(s) - s.lo for s in (*outer, row, term)]))
    fresh = {sym: Sym(names(sym.name), sym.lo, sym.hi) for sym in (*outer, row, term)}
    values = {old: Affine.of(new) for old, new in fresh.items()}
    copy = _copies(tuple(fresh.values()), [(at(ref, values), at(product.left, values))])
    return PackedOperand(ref, (copy,), product.padded_terms != term.extent)


def pack_right(product: MatrixProduct, names: Namer, space: MemorySpace) -> tuple[PackedOperand, Sym, Sym]:
    """Packs the right operand in panels of columns, in which the terms of a pair are adjacent. Returns as well the
    symbols of panels and pairs that its cell depends on, besides that of columns, which counts those of a panel."""
    column, term, width = product.column, product.term, product.panel_columns
    panel = Sym(names(column.name), 0, -(-column.extent // width) - 1)
    pair = Sym(names(term.name), 0, product.padded_terms // 2 - 1)
    outer = _outer_syms(product, product.right)
    buf = _buffer(product.right, (*(s.extent for s in outer), panel.extent, pair.extent, width, 2), names, space)
    ref = Ref(buf, (*(Affine.of(s) - s.lo for s in outer), *map(Affine.of, (panel, pair, column)), Affine()))
    is_transposed = product.right.stride(term) == 1 != product.right.stride(column)
    copies = [
        _PanelCopy.of(product, buf, columns, terms, names).nest(is_transposed and terms.size > 1)
        for columns in blocks_of(column.extent, width)
        for terms in _blocks_of_pairs(term.extent, TRANSPOSED_TERMS if is_transposed else 2)
    ]
    is_padded = panel.extent * width != column.extent or 2 * pair.extent != term.extent
    return PackedOperand(ref, tuple(copies), is_padded), panel, pair


def _blocks_of_pairs(extent: int, size: int) -> list[Blocks]:
    """Divides terms into blocks of an even size, a smaller one, and the last term if their number is odd. The blocks
    are numbered in terms."""
    full, rest = divmod(extent, size)
    even = rest - rest % 2
    return [
        Blocks(Affine((), first), count, cells)
        for first, count, cells in ((0, full, size), (full * size, 1, even), (extent - 1, extent % 2, 1))
        if count and cells
    ]


@dataclass(frozen=True, slots=True)
class _PanelCopy:
    """One nest that copies blocks of columns and of terms, with fresh symbols for the loops around, the numbers of the
    blocks, and the columns of a block."""

    product: MatrixProduct
    buf: Buf
    columns: Blocks
    terms: Blocks
    names: Namer
    outer: dict[Sym, Sym]
    panel: Sym
    part: Sym
    cell: Sym

    @staticmethod
    def of(product: MatrixProduct, buf: Buf, columns: Blocks, terms: Blocks, names: Namer) -> _PanelCopy:
        outer = {s: Sym(names(s.name), s.lo, s.hi) for s in _outer_syms(product, product.right)}
        panel = _counter(names, product.column, columns.count)
        part, cell = _counter(names, product.term, terms.count), _counter(names, product.column, columns.size)
        return _PanelCopy(product, buf, columns, terms, names, outer, panel, part, cell)

    @property
    def loops(self) -> tuple[Sym, ...]:
        """The loops around blocks."""
        return (*self.outer.values(), self.panel, self.part)

    @property
    def first_term(self) -> Affine:
        return self.terms.first + Affine.of(self.part) * self.terms.size

    def nest(self, is_transposed: bool) -> Stmt:
        """Returns the nest. Terms of a column that are contiguous are transposed in local memory before."""
        if not is_transposed:
            return self.pairs((*self.loops, self.cell), self.cell, self.source)
        name, shape = self.names(self.buf.name), (self.terms.size, self.columns.size)
        rows = local_buffer(name, self.buf.precision, shape)
        term, cell = (
            _counter(self.names, old, size)
            for old, size in zip((self.product.term, self.product.column), shape, strict=True)
        )
        target = Ref(rows, (Affine.of(term), Affine.of(self.cell)))
        transpose = _copies((term, self.cell), [(target, self.source(Affine.of(term)))])
        step = _counter(self.names, self.product.term, shape[0] // 2)
        pairs = self.pairs((step, cell), cell, lambda term: Ref(rows, (term, Affine.of(cell))), step)
        body = (Local(rows), transpose, pairs)
        return as_statement(wrap_in_loops([loop(sym, ()) for sym in self.loops], TRUE, body))

    def source(self, term: Affine) -> Ref:
        """Returns the cell of the operand, given the number of a term within a block."""
        column, width = self.product.column, self.product.panel_columns
        values = {
            **{old: Affine.of(new) for old, new in self.outer.items()},
            column: (self.columns.first + self.panel) * width + self.cell + column.lo,
            self.product.term: self.first_term + term + self.product.term.lo,
        }
        return at(self.product.right, values)

    def pairs(
        self, loops: tuple[Sym, ...], cell: Sym, source: Callable[[Affine], Ref], step: Sym | None = None
    ) -> Stmt:
        """Returns the nest that copies pairs of terms, or one term; `step` counts the pairs of a block."""
        first_pair = self.terms.first.const // 2 + Affine.of(self.part) * (self.terms.size // 2)
        pair = first_pair if step is None else first_pair + step
        term = Affine() if step is None else Affine.of(step) * 2
        outer = [Affine.of(new) - new.lo for new in self.outer.values()]
        panel = self.columns.first + self.panel
        cells = [
            (Ref(self.buf, (*outer, panel, pair, Affine.of(cell), Affine((), half))), source(term + half))
            for half in range(min(2, self.terms.size))
        ]
        return _copies(loops, cells)


def _counter(names: Namer, old: Sym, count: int) -> Sym:
    return Sym(names(old.name), 0, count - 1)


def _outer_syms(product: MatrixProduct, ref: Ref) -> list[Sym]:
    """The loops around blocks and terms that an operand depends on."""
    return [old.sym for old in (*product.outer_loops, *product.reduction_loops) if old.sym in ref.syms]


def _buffer(source: Ref, shape: tuple[int, ...], names: Namer, space: MemorySpace) -> Buf:
    name = names(source.buf.name)
    return Buf(name, source.buf.precision, shape, row_major(shape), space, AccessMode.TEMP)


def _copies(syms: Sequence[Sym], cells: Sequence[tuple[Ref, Ref]]) -> Stmt:
    """Returns the nest that copies cells, pairs of target and source, for each value of the symbols."""
    stores = tuple([Store(target, Load(source)) for target, source in cells])
    return FusionGroup(tuple([loop(sym, ()) for sym in syms]), TRUE, (), stores).stmt()

"""Operands of products of tiles in buffers of their own: rows of padded terms, and panels of pairs of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Buf, Const, Expr, Load, Local, MemorySpace, Ref, Stmt, Store, loop, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.fusion_group import FusionGroup, local_buffer
from ocannl.opt.analysis.nests import as_statement, wrap_in_loops
from ocannl.opt.idioms.matrix_tiles.tileable_product import TileableProduct, tile_columns

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


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """A cell of an operand, and the nests that fill its buffer; none if the operand is read in place."""

    ref: Ref
    copies: tuple[Stmt, ...] = ()


def pack_left(product: TileableProduct, names: Namer, space: MemorySpace) -> PackedOperand:
    """Packs the left operand in rows of padded terms."""
    outer, row, term = _outer_syms(product, product.left), product.row, product.term
    padding = product.padded_terms - term.extent
    buf = _buffer(product.left, (*(s.extent for s in outer), row.extent, product.padded_terms), names, space)
    ref = Ref(buf, tuple([Affine.of(s) - s.lo for s in (*outer, row, term)]))
    fresh = {sym: Sym(names(sym.name), sym.lo, sym.hi) for sym in (*outer, row, term)}
    values = {old: Affine.of(new) for old, new in fresh.items()}
    loops = (*_longest_first(fresh[sym] for sym in (*outer, row)), fresh[term])
    copy = _nest(loops, [(ref.substitute(values), Load(product.left.substitute(values)))])
    if not padding:
        return PackedOperand(ref, (copy,))
    sizes = (*buf.shape[:-1], padding)
    loops = tuple([_counter(names, old, size) for old, size in zip((*outer, row, term), sizes, strict=True)])
    cell = Ref(buf, (*map(Affine.of, loops[:-1]), Affine.of(loops[-1]) + term.extent))
    return PackedOperand(ref, (copy, _nest(loops, [(cell, Const(0.0, buf.precision))])))


def pack_right(product: TileableProduct, names: Namer, space: MemorySpace) -> tuple[PackedOperand, Sym, Sym]:
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
        for terms in _runs_of_pairs(term.extent, TRANSPOSED_TERMS if is_transposed else 2)
    ]
    return PackedOperand(ref, (*copies, *_panel_padding(product, buf, names))), panel, pair


def _panel_padding(product: TileableProduct, buf: Buf, names: Namer) -> list[Stmt]:
    """Returns the nests that fill pairs without terms, and columns of the last panel, with zeros."""
    *outer, panels, pairs, width, _ = buf.shape
    used_pairs, rest = -(-product.term.extent // 2), product.column.extent % width
    filled = tile_columns(rest) if rest else 0
    regions = (  # panels, pairs and columns: the first of each, and their number
        ((0, panels), (used_pairs, pairs - used_pairs), (0, width)),
        ((panels - 1, 1), (0, used_pairs), (rest, filled - rest)),
    )
    nests = []
    for region in regions:
        if all(size for _, size in region):
            extents = [(0, size) for size in outer] + list(region)
            loops = tuple([Sym(names("i"), 0, size - 1) for _, size in extents])
            cell = [Affine.of(sym) + first for sym, (first, _) in zip(loops, extents, strict=True)]
            zero = Const(0.0, buf.precision)
            nests.append(_nest(loops, [(Ref(buf, (*cell, Affine((), half))), zero) for half in range(2)]))
    return nests


@dataclass(frozen=True, slots=True)
class _Terms:
    """`count` runs of `size` terms, from term number `first`."""

    first: int
    count: int
    size: int


def _runs_of_pairs(extent: int, size: int) -> list[_Terms]:
    """Divides terms into runs of an even size, a shorter one, and the last term if their number is odd."""
    full, rest = divmod(extent, size)
    runs = _Terms(0, full, size), _Terms(full * size, 1, rest - rest % 2), _Terms(extent - 1, extent % 2, 1)
    return [run for run in runs if run.count and run.size]


@dataclass(frozen=True, slots=True)
class _PanelCopy:
    """One nest that copies runs of terms of blocks of columns, with fresh symbols for the loops around, the numbers of
    blocks and runs, and the columns of a block."""

    product: TileableProduct
    buf: Buf
    columns: Blocks
    terms: _Terms
    names: Namer
    outer: dict[Sym, Sym]
    panel: Sym
    run: Sym
    cell: Sym

    @staticmethod
    def of(product: TileableProduct, buf: Buf, columns: Blocks, terms: _Terms, names: Namer) -> _PanelCopy:
        outer = {s: Sym(names(s.name), s.lo, s.hi) for s in _outer_syms(product, product.right)}
        panel = _counter(names, product.column, columns.count)
        run, cell = _counter(names, product.term, terms.count), _counter(names, product.column, columns.size)
        return _PanelCopy(product, buf, columns, terms, names, outer, panel, run, cell)

    @property
    def loops(self) -> tuple[Sym, ...]:
        """The loops around runs."""
        return (*_longest_first((*self.outer.values(), self.panel)), self.run)

    @property
    def first_term(self) -> Affine:
        return Affine.of(self.run) * self.terms.size + self.terms.first

    def nest(self, is_transposed: bool) -> Stmt:
        """Returns the nest. Terms of a column that are contiguous are transposed in local memory before."""
        if not is_transposed:
            return self.pairs((*self.loops, self.cell), self.cell, self.source)
        name, shape = self.names(self.buf.name), (self.terms.size, self.columns.size)
        transposed = local_buffer(name, self.buf.precision, shape)
        term, cell = (
            _counter(self.names, old, size)
            for old, size in zip((self.product.term, self.product.column), shape, strict=True)
        )
        target = Ref(transposed, (Affine.of(term), Affine.of(self.cell)))
        transpose = _nest((term, self.cell), [(target, Load(self.source(Affine.of(term))))])
        step = _counter(self.names, self.product.term, shape[0] // 2)
        pairs = self.pairs((step, cell), cell, lambda term: Ref(transposed, (term, Affine.of(cell))), step)
        body = (Local(transposed), transpose, pairs)
        return as_statement(wrap_in_loops([loop(sym, ()) for sym in self.loops], TRUE, body))

    def source(self, term: Affine) -> Ref:
        """Returns the cell of the operand, given the number of a term within a block."""
        column, width = self.product.column, self.product.panel_columns
        values = {
            **{old: Affine.of(new) for old, new in self.outer.items()},
            column: (self.columns.first + self.panel) * width + self.cell + column.lo,
            self.product.term: self.first_term + term + self.product.term.lo,
        }
        return self.product.right.substitute(values)

    def pairs(
        self, loops: tuple[Sym, ...], cell: Sym, source: Callable[[Affine], Ref], step: Sym | None = None
    ) -> Stmt:
        """Returns the nest that copies pairs of terms, or one term and a zero; `step` counts the pairs of a run."""
        pair = Affine.of(self.run) * (self.terms.size // 2) + self.terms.first // 2
        term = Affine()
        if step is not None:
            pair, term = pair + step, Affine.of(step) * 2
        outer = [Affine.of(new) - new.lo for new in self.outer.values()]
        cells: list[tuple[Ref, Expr]] = []
        for half in range(2):
            target = Ref(self.buf, (*outer, self.columns.first + self.panel, pair, Affine.of(cell), Affine((), half)))
            is_term = half < self.terms.size
            cells.append((target, Load(source(term + half)) if is_term else Const(0.0, self.buf.precision)))
        return _nest(loops, cells)


def _longest_first(syms: Iterable[Sym]) -> list[Sym]:
    """Returns the loops with the longest outside, so that threads can share it."""
    return sorted(syms, key=lambda sym: -sym.extent)


def _counter(names: Namer, old: Sym, count: int) -> Sym:
    return Sym(names(old.name), 0, count - 1)


def _outer_syms(product: TileableProduct, ref: Ref) -> list[Sym]:
    """The loops around blocks and terms that an operand depends on."""
    return [old.sym for old in (*product.outer_loops, *product.reduction_loops) if old.sym in ref.syms]


def _buffer(source: Ref, shape: tuple[int, ...], names: Namer, space: MemorySpace) -> Buf:
    name = names(source.buf.name)
    return Buf(name, source.buf.precision, shape, row_major(shape), space, AccessMode.TEMP)


def _nest(syms: Sequence[Sym], cells: Sequence[tuple[Ref, Expr]]) -> Stmt:
    """Returns the nest that stores a value in each cell, for all values of the symbols."""
    stores = tuple([Store(target, value) for target, value in cells])
    return FusionGroup(tuple([loop(sym, ()) for sym in syms]), TRUE, (), stores).stmt()

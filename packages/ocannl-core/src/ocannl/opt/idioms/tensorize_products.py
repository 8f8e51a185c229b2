"""Tiles products of bfloat16 matrices for processors with matrix instructions (tensorization)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    is_full,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import bfloat16, float32
from ocannl.ir.tile_products import MAX_COLUMNS, MAX_ROWS, TILE_COLUMNS, TILE_PAIRS, TILE_ROWS, TileProduct
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.analysis.nests import bound_names, same_objects, wrap_in_loops
from ocannl.opt.analysis.substitution import map_expr
from ocannl.opt.idioms.form_pair_dots import factors_of_terms


def tensorize_products(proc: Proc, capabilities: Capabilities) -> Proc:
    """Builds products of bfloat16 matrices from blocks of tiles, with an operand that is packed in pairs of terms."""
    return _Tensorizer(Namer(bound_names(proc)), capabilities).run(proc)


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A group whose terms are products of `left`, which depends on `row`, and `right`, which depends on `column`; both
    depend on `term`. Further loops of the group and of its reduction are around these."""

    group: FusionGroup
    left: Ref
    right: Ref
    row: Sym
    column: Sym
    term: Sym

    @property
    def reduction(self) -> Reduction:
        return self.group.reductions[0]

    @property
    def outer_loops(self) -> tuple[For, ...]:
        """The parallel loops around blocks."""
        return tuple([old for old in self.group.loops if old.sym not in (self.row, self.column)])

    @property
    def reduction_loops(self) -> tuple[For, ...]:
        """The reduction loops around that over terms."""
        return tuple([old for old in self.reduction.loops if old.sym is not self.term])

    @property
    def panel_columns(self) -> int:
        """Columns per panel of the right operand."""
        return TILE_COLUMNS if self.column.extent <= TILE_COLUMNS else MAX_COLUMNS

    @property
    def term_parts(self) -> int:
        """The number of sums that are added up along the loop over terms."""
        return -(-self.term.extent // machine.MAX_TILE_TERMS)

    @property
    def part_pairs(self) -> int:
        """The number of pairs of terms in such a sum, padded to whole tiles."""
        return TILE_PAIRS * -(-self.term.extent // (2 * TILE_PAIRS * self.term_parts))

    @property
    def padded_terms(self) -> int:
        return 2 * self.part_pairs * self.term_parts

    @property
    def packs_left(self) -> bool:
        """Whether the left operand is packed; otherwise rows of tiles are read in place."""
        return self.left.stride(self.term) != 1 or self.padded_terms != self.term.extent

    def inner_reduction_loops(self) -> tuple[For, ...]:
        """The reduction loops whose terms tiles add up, besides that over terms."""
        terms, inner = 2 * self.part_pairs, ()
        for old in reversed(self.reduction_loops if self.term_parts == 1 else ()):
            terms *= old.sym.extent
            if terms > machine.MAX_TILE_TERMS:
                break
            inner = (old, *inner)
        return inner


def matrix_product(group: FusionGroup) -> MatrixProduct | None:
    """Returns the product of bfloat16 matrices that a group computes; None if it is none, or too small for tiles."""
    if len(group.reductions) != 1 or not group.cond.is_true:
        return None
    (reduction,) = group.reductions
    factors = factors_of_terms(reduction)
    if factors is None or not reduction.cond.is_true or not all(map(is_full, reduction.loops)):
        return None
    x, y = (factor.ref for factor in factors)
    if reduction.acc.precision is not float32 or (x.buf.precision, y.buf.precision) != (bfloat16, bfloat16):
        return None
    products = [product for left, right in ((x, y), (y, x)) for product in _with_roles(group, left, right)]
    return max(filter(_is_profitable, products), key=_preference, default=None)


def _with_roles(group: FusionGroup, left: Ref, right: Ref) -> Iterator[MatrixProduct]:
    (reduction,) = group.reductions
    rows, columns = (
        [sym for sym in group.syms if sym in mine.syms and sym not in rest.syms]
        for mine, rest in ((left, right), (right, left))
    )
    terms = [sym for sym in reduction.syms if sym in left.syms and sym in right.syms]
    if rows and columns and terms:
        row = max(rows, key=lambda sym: sym.extent)
        column = max(columns, key=lambda sym: (_is_contiguous(group, sym), sym.extent))
        term = max(terms, key=lambda sym: (left.stride(sym) == 1, sym.extent))
        yield MatrixProduct(group, left, right, row, column, term)


def _is_contiguous(group: FusionGroup, sym: Sym) -> bool:
    return all(ref.stride(sym) == 1 for ref in group.writes)


def _preference(product: MatrixProduct) -> tuple[bool, bool]:
    return _is_contiguous(product.group, product.column), not product.packs_left


def _is_profitable(product: MatrixProduct) -> bool:
    row, column, term = product.row, product.column, product.term
    if row.extent < TILE_ROWS or column.extent < TILE_COLUMNS or term.extent < machine.MIN_TILE_TERMS:
        return False
    panels = -(-column.extent // product.panel_columns)
    padding = panels * product.panel_columns / column.extent * product.padded_terms / term.extent
    parts = product.term_parts * prod(old.sym.extent for old in product.reduction_loops)
    parts //= prod(old.sym.extent for old in product.inner_reduction_loops())
    packed = (product.right, product.left) if product.packs_left else (product.right,)
    return (
        padding <= machine.MAX_TILE_PADDING and parts <= machine.MAX_TILE_PARTS
        and all(_is_worth_packing(ref, product.group, product.reduction) for ref in packed)
    )  # fmt: skip


def _is_worth_packing(ref: Ref, group: FusionGroup, reduction: Reduction) -> bool:
    reuse = prod(sym.extent for sym in group.syms if sym not in ref.syms)
    cells = prod(sym.extent for sym in (*group.syms, *reduction.syms) if sym in ref.syms)
    return reuse >= machine.MIN_TILE_REUSE and cells <= machine.MAX_TILE_OPERAND_GROWTH * ref.buf.size


@dataclass(frozen=True, slots=True)
class _Tensorizer:
    names: Namer
    capabilities: Capabilities

    def run(self, proc: Proc) -> Proc:
        body: list[Stmt] = []
        bufs: list[Buf] = []
        for stmt in proc.body:
            product = self.product_of(stmt)
            if product is None:
                body.append(self.nested(stmt))
            else:
                blocks = TiledProduct.of(product, self.names, self.capabilities, MemorySpace.ARENA)
                body += (*blocks.fills, *blocks.copies, *blocks.loops())
                bufs += blocks.bufs
        return proc if same_objects(body, proc.body) else replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs))

    def product_of(self, stmt: Stmt) -> MatrixProduct | None:
        group = group_of(stmt, self.names)
        return None if group is None else matrix_product(group)

    def nested(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(body=body) | BindIndex(body=body):
                new = self.nested_body(body)
                return stmt if same_objects(new, body) else replace(stmt, body=new)
            case If(cond, on_true, on_false):
                first, second = self.nested_body(on_true), self.nested_body(on_false)
                is_same = same_objects((*first, *second), (*on_true, *on_false))
                return stmt if is_same else If(cond, first, second)
            case _:
                return stmt

    def nested_body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            product = self.product_of(stmt)
            blocks = None
            if product is not None and isinstance(product.reduction.init, Const):  # else it is a step of a longer sum
                blocks = TiledProduct.of(product, self.names, self.capabilities, MemorySpace.LOCAL)
            if blocks is None or sum(buf.nbytes for buf in blocks.bufs) > machine.MAX_LOCAL_SUMS_BYTES:
                out.append(self.nested(stmt))
            else:
                out += (*blocks.locals, *blocks.copies, *blocks.loops())
        return tuple(out)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks along an axis: `count` blocks of `size` cells, from block number `first`."""

    first: Affine
    count: int
    size: int


def _blocks(sym: Sym, size: int) -> list[_Blocks]:
    full, rest = divmod(sym.extent, size)
    return [*_counted(0, full, size), *_counted(full, 1, rest)]


def _counted(first: int, count: int, size: int) -> list[_Blocks]:
    return [_Blocks(Affine((), first), count, size)] if count and size else []


@dataclass(frozen=True, slots=True)
class _PackedOperand:
    """An operand in a buffer: its cell, the groups that copy it, and whether some cells stay zero."""

    ref: Ref
    copies: tuple[FusionGroup, ...] = ()
    is_padded: bool = False


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """The loops of a product: packed operands, and blocks of at most `MAX_ROWS` rows and columns."""

    product: MatrixProduct
    names: Namer
    strip_bytes: int
    left: _PackedOperand
    right: _PackedOperand
    panel: Sym
    pair: Sym

    @staticmethod
    def of(product: MatrixProduct, names: Namer, capabilities: Capabilities, space: MemorySpace) -> TiledProduct:
        panels = -(-product.column.extent // product.panel_columns)
        panel = Sym(names(product.column.name), 0, panels - 1)
        pair = Sym(names(product.term.name), 0, product.padded_terms // 2 - 1)
        left = _pack_left(product, names, space) if product.packs_left else _PackedOperand(product.left)
        right = _pack_right(product, panel, pair, names, space)
        strip_bytes = capabilities.cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR
        return TiledProduct(product, names, strip_bytes, left, right, panel, pair)

    @property
    def operands(self) -> list[_PackedOperand]:
        return [operand for operand in (self.left, self.right) if operand.copies]

    @property
    def bufs(self) -> list[Buf]:
        return [operand.ref.buf for operand in self.operands]

    @property
    def locals(self) -> list[Stmt]:
        return [Local(operand.ref.buf, 0 if operand.is_padded else None) for operand in self.operands]

    @property
    def fills(self) -> list[Stmt]:
        """Nests that fill padded operands with zeros."""
        return [self.fill(operand.ref.buf) for operand in self.operands if operand.is_padded]

    @property
    def copies(self) -> list[Stmt]:
        return [copy.stmt() for operand in self.operands for copy in operand.copies]

    def fill(self, buf: Buf) -> Stmt:
        syms = [Sym(self.names("i"), 0, size - 1) for size in buf.shape]
        target = Store(Ref(buf, tuple(map(Affine.of, syms))), Const(0.0, buf.precision))
        return FusionGroup(tuple([loop(sym, ()) for sym in syms]), TRUE, (), (target,)).stmt()

    def loops(self) -> Body:
        """Returns the loops over blocks. The longer axis is outside; the operand of the other one stays in the caches,
        in strips if it is too large."""
        product = self.product
        rows, columns = _blocks(product.row, MAX_ROWS), _blocks(product.column, product.panel_columns)
        is_row_outside = product.row.extent >= product.column.extent
        outer, inner = (rows, columns) if is_row_outside else (columns, rows)
        body: list[Stmt] = []
        for strips, blocks in self.strips(inner):
            body += _in_loop(strips, [nest for part in outer for nest in self.nest(part, blocks, is_row_outside)])
        return wrap_in_loops(product.outer_loops, TRUE, tuple(body)) if product.outer_loops else tuple(body)

    def strips(self, blocks: Sequence[_Blocks]) -> list[tuple[For | None, list[_Blocks]]]:
        """Divides blocks along the inner axis into strips; a loop over strips is None if there is only one."""
        full, *rest = blocks
        block_bytes = full.size * self.product.padded_terms * bfloat16.nbytes
        block_bytes *= prod(old.sym.extent for old in self.product.reduction_loops)
        size = max(1, self.strip_bytes // block_bytes)
        if size >= full.count:
            return [(None, [full, *rest])]
        strips = self.counter("strip", full.count // size)
        strip = replace(full, first=Affine.of(strips.sym) * size, count=size)
        rest = [*_counted(full.count // size * size, full.count % size, full.size), *rest]
        return [(strips, [strip]), *([(None, rest)] if rest else [])]

    def counter(self, name: str, count: int) -> For:
        return loop(Sym(self.names(name), 0, count - 1), ())

    def numbered(self, blocks: _Blocks, name: str) -> tuple[For | None, Affine]:
        """Returns the loop over blocks, unless there is only one, and the number of a block."""
        if blocks.count == 1:
            return None, blocks.first
        counter = self.counter(name, blocks.count)
        return counter, blocks.first + counter.sym

    def nest(self, outer: _Blocks, inner: Sequence[_Blocks], is_row_outside: bool) -> Body:
        names = [self.product.row.name, self.product.column.name]
        outer_name, inner_name = names if is_row_outside else names[::-1]
        outer_loop, outer_number = self.numbered(outer, outer_name)
        body: list[Stmt] = []
        for blocks in inner:
            inner_loop, inner_number = self.numbered(blocks, inner_name)
            cells = (outer.size, outer_number), (blocks.size, inner_number)
            body += _in_loop(inner_loop, self.block(*(cells if is_row_outside else cells[::-1])))
        return _in_loop(outer_loop, body)

    def block(self, rows: tuple[int, Affine], columns: tuple[int, Affine]) -> Body:
        """Returns the sums of a block, given its size and number along each axis, and the epilogue."""
        product, names = self.product, self.names
        sums = local_buffer(names("sums"), float32, (rows[0], product.panel_columns))
        first_row = rows[1] * MAX_ROWS + product.row.lo
        inner = product.inner_reduction_loops()
        outer = [old for old in product.reduction_loops if old not in inner]
        parts = self.counter("part", product.term_parts) if product.term_parts > 1 else None
        if not outer and parts is None:
            return (Local(sums), self.tiles(sums, first_row, columns[1], Affine(), inner, {}), *self.epilogue(sums, rows, columns))
        part = replace(sums, name=names("part_sums"))
        first_pair = Affine() if parts is None else Affine.of(parts.sym) * product.part_pairs
        fresh = {old.sym: self.renamed(old.sym) for old in outer}
        values = {old: Affine.of(sym) for old, sym in fresh.items()}
        body = _in_loop(parts, (
            Local(part), self.tiles(part, first_row, columns[1], first_pair, inner, values), self.addition(sums, part),
        ))  # fmt: skip
        loops = [loop(fresh[old.sym], ()) for old in outer]
        return (Local(sums, 0.0), *wrap_in_loops(loops, TRUE, body), *self.epilogue(sums, rows, columns))

    def renamed(self, sym: Sym) -> Sym:
        return Sym(self.names(sym.name), sym.lo, sym.hi, sym.kind)

    def tiles(
        self, sums: Buf, first_row: Affine, panel: Affine, first_pair: Affine, inner: Sequence[For],
        values: Mapping[Sym, Affine],
    ) -> Stmt:  # fmt: skip
        """Returns the product of tiles that computes `sums`."""
        product = self.product
        row, column = (self.counter(old.name, size).sym for old, size in zip((product.row, product.column), sums.shape, strict=True))
        pair = self.counter(product.term.name, product.part_pairs).sym
        fresh = {old.sym: self.renamed(old.sym) for old in inner}
        values = {**values, **{old: Affine.of(sym) for old, sym in fresh.items()}}
        first_term = (first_pair + pair) * 2 + product.term.lo
        left = _at(self.left.ref, {**values, product.row: first_row + row, product.term: first_term})
        right = _at(self.right.ref, {**values, self.panel: panel, product.column: Affine.of(column), self.pair: first_pair + pair})
        loops = (*(loop(fresh[old.sym], ()) for old in inner), loop(pair, ()))
        return TileProduct(Ref(sums, (Affine.of(row), Affine.of(column))), left, right, row, column, loops).stmt(
            self.names("acc")
        )

    def addition(self, sums: Buf, part: Buf) -> Stmt:
        syms = [self.counter(name, size).sym for name, size in zip("rc", sums.shape, strict=True)]
        cell = tuple(map(Affine.of, syms))
        return wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (Update(Ref(sums, cell), ADD, Load(Ref(part, cell))),))[0]

    def epilogue(self, sums: Buf, rows: tuple[int, Affine], columns: tuple[int, Affine]) -> Body:
        """Returns the nest that computes the results of a block from its sums."""
        product = self.product
        row, column = self.counter(product.row.name, rows[0]).sym, self.counter(product.column.name, columns[0]).sym
        at = {
            product.row: rows[1] * MAX_ROWS + row + product.row.lo,
            product.column: columns[1] * product.panel_columns + column + product.column.lo,
        }
        group = product.group.substituted(at)
        total: Expr = Load(Ref(sums, (Affine.of(row), Affine.of(column))))
        init = group.reductions[0].init
        if not isinstance(init, Const) or init.value:
            total = Apply(ADD, (init, total))
        new_names: dict[str, str] = {}

        def leaf(node: Expr) -> Expr:
            match node:
                case Load(ref) if ref.buf is product.reduction.acc:
                    return total
                case Var(name, precision) if name in new_names:
                    return Var(new_names[name], precision)
                case _:
                    return node

        statements: list[Let | Store | Update] = []
        for stmt in group.epilogue:
            new = replace(stmt, value=map_expr(stmt.value, leaf))
            if isinstance(new, Let):
                new_names[new.name] = self.names(new.name)
                new = replace(new, name=new_names[new.name])
            statements.append(new)
        loops = tuple([replace(loop(sym, ()), origin=old.origin) for sym, old in zip((row, column), self.block_loops, strict=True)])
        return (FusionGroup(loops, TRUE, (), tuple(statements)).stmt(),)

    @property
    def block_loops(self) -> tuple[For, For]:
        """The loops of the group over rows and columns."""
        by_sym = {old.sym: old for old in self.product.group.loops}
        return by_sym[self.product.row], by_sym[self.product.column]


def _in_loop(counter: For | None, body: Sequence[Stmt]) -> Body:
    return tuple(body) if counter is None else (replace(counter, body=tuple(body)),)


def _at(ref: Ref, values: Mapping[Sym, Affine]) -> Ref:
    return Ref(ref.buf, tuple([index.substitute(values) for index in ref.indices]))


def _outer_syms(product: MatrixProduct, ref: Ref) -> list[Sym]:
    """The loops around blocks and terms that an operand depends on."""
    return [old.sym for old in (*product.outer_loops, *product.reduction_loops) if old.sym in ref.syms]


def _pack_left(product: MatrixProduct, names: Namer, space: MemorySpace) -> _PackedOperand:
    """Packs the left operand in rows of padded terms."""
    outer, row, term = _outer_syms(product, product.left), product.row, product.term
    buf = _operand_buffer(product.left, (*(sym.extent for sym in outer), row.extent, product.padded_terms), names, space)
    syms = (*outer, row, term)
    ref = Ref(buf, tuple([Affine.of(sym) - sym.lo for sym in syms]))
    copy = _copy(ref, product.left, syms, names)
    return _PackedOperand(ref, (copy,), product.padded_terms != term.extent)


def _pack_right(product: MatrixProduct, panel: Sym, pair: Sym, names: Namer, space: MemorySpace) -> _PackedOperand:
    """Packs the right operand in panels of columns, in which the terms of a pair are adjacent."""
    outer, column, term, width = _outer_syms(product, product.right), product.column, product.term, product.panel_columns
    shape = (*(sym.extent for sym in outer), panel.extent, pair.extent, width, 2)
    buf = _operand_buffer(product.right, shape, names, space)
    first = [Affine.of(sym) - sym.lo for sym in outer]
    copies = []
    for blocks in _blocks(column, width):
        for pairs in _blocks(term, 2):
            number, cell, step, half = (
                Sym(names(old.name), 0, count - 1)
                for old, count in ((column, blocks.count), (column, blocks.size), (term, pairs.count), (term, pairs.size))
            )
            target = Ref(buf, (*first, blocks.first + number, pairs.first + step, Affine.of(cell), Affine.of(half)))
            values = {
                column: (blocks.first + number) * width + cell + column.lo,
                term: (pairs.first + step) * 2 + half + term.lo,
            }
            copies.append(_copy(target, _at(product.right, values), (*outer, number, step, cell, half), names))
    is_padded = panel.extent * width != column.extent or 2 * pair.extent != term.extent
    ref = Ref(buf, (*first, Affine.of(panel), Affine.of(pair), Affine.of(column), Affine()))
    return _PackedOperand(ref, tuple(copies), is_padded)


def _operand_buffer(source: Ref, shape: tuple[int, ...], names: Namer, space: MemorySpace) -> Buf:
    name = names(source.buf.name)
    return Buf(name, source.buf.precision, shape, row_major(shape), space, AccessMode.TEMP)


def _copy(target: Ref, source: Ref, syms: Sequence[Sym], names: Namer) -> FusionGroup:
    """Returns the group that copies a cell for each value of the symbols, which are renamed."""
    fresh = {sym: Sym(names(sym.name), sym.lo, sym.hi) for sym in syms}
    values = {old: Affine.of(new) for old, new in fresh.items()}
    loops = tuple([loop(sym, ()) for sym in fresh.values()])
    return FusionGroup(loops, TRUE, (), (Store(_at(target, values), Load(_at(source, values))),))

"""The loops of a product of bfloat16 matrices: blocks of rows and columns whose sums tiles compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Const,
    Expr,
    For,
    Let,
    Load,
    Local,
    MemorySpace,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    loop,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import bfloat16, float32
from ocannl.ir.tile_products import TileProduct
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, local_buffer
from ocannl.opt.analysis.nests import as_statement, wrap_in_loops
from ocannl.opt.analysis.substitution import map_expr, substitute_statements
from ocannl.opt.idioms.matrix_tiles.packed_operands import (
    Blocks,
    PackedOperand,
    blocks_of,
    counted_blocks,
    pack_left,
    pack_right,
)
from ocannl.opt.idioms.matrix_tiles.tileable_product import TileableProduct, tile_columns
from ocannl.opt.schedule.plan.register_tiles import imbalance_of_parts


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """A product with its packed operands. The symbols `panel` and `pair` are those of the cell of the right one."""

    product: TileableProduct
    names: Namer
    strip_bytes: int
    left: PackedOperand
    right: PackedOperand
    panel: Sym
    pair: Sym

    @staticmethod
    def of(
        product: TileableProduct, names: Namer, capabilities: Capabilities, space_of: Callable[[Ref], MemorySpace]
    ) -> TiledProduct:
        """Packs operands in memory of the space that `space_of` returns."""
        left = PackedOperand(product.left)
        if product.packs_left:
            left = pack_left(product, names, space_of(product.left))
        right, panel, pair = pack_right(product, names, space_of(product.right))
        strip_bytes = capabilities.cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR
        return TiledProduct(product, names, strip_bytes, left, right, panel, pair)

    def packed_in(self, space: MemorySpace) -> list[PackedOperand]:
        """Returns the operands that are packed in memory of this space."""
        return [operand for operand in (self.left, self.right) if operand.copies and operand.ref.buf.space is space]

    def blocks(self) -> Body:
        """Returns the loops over blocks, those along the longer axis outside, unless there are few of them."""
        product = self.product
        rows = blocks_of(product.row.extent, product.block_rows)
        columns = blocks_of(product.column.extent, product.panel_columns)
        outer, inner = (rows, columns) if product.is_row_outside else (columns, rows)
        return tuple([nest for blocks in outer for nest in self.nests(blocks, inner, product.is_row_outside)])

    def nests(self, outer: Blocks, inner: Sequence[Blocks], is_row_outside: bool) -> list[Stmt]:
        """Returns the nests over the blocks of the outer axis. If the operand of the inner axis is larger than its
        share of the caches, groups of outer blocks read it in strips. Blocks that fill no group, and a few ones, are
        inside of the loop over inner blocks instead, which threads share better."""
        if outer.count < min(machine.MIN_OUTER_TRIPS, inner[0].count):
            return [nest for blocks in inner for nest in self.nests(blocks, [outer], not is_row_outside)]
        name = self.product.axes[not is_row_outside].name
        size = 1 if self.fits_cache(inner) else _group_size(outer.count)
        group = self.loop(name, outer.count // size)
        first = outer.first + Affine.of(group.sym) * size
        body: list[Stmt] = []
        for strips, strip in self.strips(inner) if size > 1 else [(None, inner)]:
            member = self.loop(name, size) if size > 1 else None
            number = first if member is None else first + member.sym
            line = self.line(ResultBlock(number, outer.size), strip, is_row_outside)
            body += _in_loop(strips, _in_loop(member, line))
        grouped = outer.count // size * size
        remaining = Blocks(outer.first + grouped, outer.count - grouped, outer.size)
        nests = self.nests(remaining, inner, is_row_outside) if remaining.count else []
        return [self.in_outer_loops(group, body), *nests]

    def in_outer_loops(self, group: For, body: Sequence[Stmt]) -> Stmt:
        """Returns the loop over groups and the loops of the product around blocks. The loop that threads share most
        equally is outermost."""
        outer = self.product.outer_loops
        loops = (*outer, group)
        outermost = min(loops, key=lambda old: _sharing_defect(old.sym.extent))
        loops = (outermost, *(old for old in loops if old is not outermost))
        fresh = {old.sym: self.renamed(old.sym) for old in outer}
        values = {old: Affine.of(sym) for old, sym in fresh.items()}
        loops = tuple([loop(fresh[old.sym], (), old.origin) if old.sym in fresh else old for old in loops])
        return as_statement(wrap_in_loops(loops, TRUE, substitute_statements(tuple(body), values)))

    def fits_cache(self, blocks: Sequence[Blocks]) -> bool:
        """Whether the operand of these blocks fits its share of the caches."""
        return sum(part.count * part.size for part in blocks) * self.cell_bytes <= self.strip_bytes

    @property
    def cell_bytes(self) -> int:
        """The size of the terms of a row or column."""
        outer = prod(old.sym.extent for old in self.product.reduction_loops)
        return outer * self.product.padded_terms * bfloat16.nbytes

    def strips(self, blocks: Sequence[Blocks]) -> list[tuple[For | None, list[Blocks]]]:
        """Divides blocks into strips that fit the caches, and a rest, with the loop over strips."""
        full, *rest = blocks
        size = min(full.count, max(1, self.strip_bytes // (full.size * self.cell_bytes)))
        strips = self.loop("strip", full.count // size)
        strip = replace(full, first=full.first + Affine.of(strips.sym) * size, count=size)
        rest = [*counted_blocks(full.count // size * size, full.count % size, full.size), *rest]
        return [(strips, [strip]), *([(None, rest)] if rest else [])]

    def line(self, outer: ResultBlock, inner: Sequence[Blocks], is_row_outside: bool) -> Body:
        """Returns the loops over inner blocks."""
        name = self.product.axes[is_row_outside].name
        body: list[Stmt] = []
        for blocks in inner:
            inner_loop, number = self.numbered(blocks, name)
            axes = outer, ResultBlock(number, blocks.size)
            body += _in_loop(inner_loop, self.block(*(axes if is_row_outside else axes[::-1])))
        return tuple(body)

    def numbered(self, blocks: Blocks, name: str) -> tuple[For | None, Affine]:
        """Returns the loop over blocks, unless there is only one, and the number of a block."""
        if blocks.count == 1:
            return None, blocks.first
        counter = self.loop(name, blocks.count)
        return counter, blocks.first + counter.sym

    def block(self, rows: ResultBlock, columns: ResultBlock) -> Body:
        """Returns the sums of a block and the epilogue. Sums of parts of the terms are added up."""
        product, names = self.product, self.names
        sums = local_buffer(names("sums"), float32, (rows.size, tile_columns(columns.size)))
        epilogue = self.epilogue(sums, rows, columns)
        inner = product.inner_reduction_loops()
        outer = {old.sym: self.renamed(old.sym) for old in product.reduction_loops if old not in inner}
        if not outer and product.term_parts == 1:
            return (Local(sums), self.tiles(sums, rows, columns, Affine(), {}), epilogue)
        part_sums, part = replace(sums, name=names("part_sums")), self.loop("part", product.term_parts)
        values = {old: Affine.of(sym) for old, sym in outer.items()}
        tiles = self.tiles(part_sums, rows, columns, Affine.of(part.sym) * product.part_pairs, values)
        loops = [*(loop(sym, ()) for sym in outer.values()), part]
        body = (Local(part_sums), tiles, self.addition(sums, part_sums))
        return (Local(sums, 0.0), *wrap_in_loops(loops, TRUE, body), epilogue)

    def tiles(
        self, sums: Buf, rows: ResultBlock, columns: ResultBlock, first_pair: Affine, values: Mapping[Sym, Affine]
    ) -> Stmt:
        """Returns the product of tiles that computes `sums`, with `values` for the loops around it."""
        product = self.product
        row, column = (self.loop(sym.name, size).sym for sym, size in zip(product.axes, sums.shape, strict=True))
        pair = self.loop(product.term.name, product.part_pairs).sym
        inner = {old.sym: self.renamed(old.sym) for old in product.inner_reduction_loops()}
        values = {**values, **{old: Affine.of(sym) for old, sym in inner.items()}}
        terms = {product.row: self.first_row(rows) + row, product.term: (first_pair + pair) * 2 + product.term.lo}
        pairs = {self.panel: columns.number, product.column: Affine.of(column), self.pair: first_pair + pair}
        cell = Ref(sums, (Affine.of(row), Affine.of(column)))
        left, right = self.left.ref.substitute({**values, **terms}), self.right.ref.substitute({**values, **pairs})
        loops = tuple([loop(sym, ()) for sym in (*inner.values(), pair)])
        return TileProduct(cell, left, right, row, column, loops).stmt(self.names("acc"))

    def addition(self, sums: Buf, part_sums: Buf) -> Stmt:
        """Returns the nest that adds the sums of a part."""
        loops = [self.loop(sym.name, size) for sym, size in zip(self.product.axes, sums.shape, strict=True)]
        cell = tuple([Affine.of(counter.sym) for counter in loops])
        return as_statement(wrap_in_loops(loops, TRUE, (Update(Ref(sums, cell), ADD, Load(Ref(part_sums, cell))),)))

    def epilogue(self, sums: Buf, rows: ResultBlock, columns: ResultBlock) -> Stmt:
        """Returns the nest that computes the results of a block from its sums."""
        product = self.product
        row, column = (
            self.loop(sym.name, block.size, old.origin)
            for sym, block, old in zip(product.axes, (rows, columns), product.axis_loops, strict=True)
        )
        first_column = columns.number * product.panel_columns + product.column.lo
        cells = {product.row: self.first_row(rows) + row.sym, product.column: first_column + column.sym}
        group = product.group.substituted(cells)
        total: Expr = Load(Ref(sums, (Affine.of(row.sym), Affine.of(column.sym))))
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
        return FusionGroup((row, column), TRUE, (), tuple(statements)).stmt()

    def first_row(self, rows: ResultBlock) -> Affine:
        return rows.number * self.product.block_rows + self.product.row.lo

    def loop(self, name: str, count: int, origin: Origin = NOWHERE) -> For:
        return loop(Sym(self.names(name), 0, count - 1), (), origin)

    def renamed(self, sym: Sym) -> Sym:
        return Sym(self.names(sym.name), sym.lo, sym.hi, sym.kind)


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """The number of a block along an axis, and the iterations of the axis in it."""

    number: Affine
    size: int


def _in_loop(counter: For | None, body: Sequence[Stmt]) -> Body:
    return tuple(body) if counter is None else (replace(counter, body=tuple(body)),)


def _group_size(blocks: int) -> int:
    """Returns the number of blocks in a group, such that threads get nearly the same number of groups."""
    sizes = range(min(machine.MAX_GROUPED_BLOCKS, blocks // machine.MIN_OUTER_TRIPS), 1, -1)
    balanced = (
        size for size in sizes
        if imbalance_of_parts(blocks // size * size, size) <= machine.MAX_GROUP_IMBALANCE
    )  # fmt: skip
    return next(balanced, 1)


def _sharing_defect(count: int) -> tuple[bool, bool, float]:
    """Returns a key that orders the numbers of iterations of a loop by how well threads can share it."""
    imbalance = imbalance_of_parts(count, 1)
    return count < machine.MIN_OUTER_TRIPS, imbalance > machine.MAX_GROUP_IMBALANCE, imbalance

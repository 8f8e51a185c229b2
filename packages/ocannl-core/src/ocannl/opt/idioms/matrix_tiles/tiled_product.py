"""The loops of a product of bfloat16 matrices: blocks of rows and columns whose sums tiles compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ocannl.ir.tile_products import MAX_ROWS, TileProduct
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, local_buffer
from ocannl.opt.analysis.nests import as_statement, wrap_in_loops
from ocannl.opt.analysis.substitution import map_expr
from ocannl.opt.idioms.matrix_tiles.matrix_product import MatrixProduct
from ocannl.opt.idioms.matrix_tiles.packed_operands import (
    Blocks,
    PackedOperand,
    at,
    blocks_of,
    counted_blocks,
    pack_left,
    pack_right,
)


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """A product with its packed operands. The symbols `panel` and `pair` are those of the cell of the right one."""

    product: MatrixProduct
    names: Namer
    strip_bytes: int
    left: PackedOperand
    right: PackedOperand
    panel: Sym
    pair: Sym

    @staticmethod
    def of(product: MatrixProduct, names: Namer, capabilities: Capabilities, space: MemorySpace) -> TiledProduct:
        """Packs the operands in memory of this space."""
        left = pack_left(product, names, space) if product.packs_left else PackedOperand(product.left)
        right, panel, pair = pack_right(product, names, space)
        strip_bytes = capabilities.cpu.l2.size_bytes // machine.OPERAND_CACHE_DIVISOR
        return TiledProduct(product, names, strip_bytes, left, right, panel, pair)

    @property
    def packed_operands(self) -> list[PackedOperand]:
        return [operand for operand in (self.left, self.right) if operand.copies]

    @property
    def bufs(self) -> list[Buf]:
        return [operand.ref.buf for operand in self.packed_operands]

    @property
    def locals(self) -> list[Stmt]:
        """The declarations of packed operands in local memory."""
        return [Local(operand.ref.buf, 0 if operand.is_padded else None) for operand in self.packed_operands]

    @property
    def copies(self) -> list[Stmt]:
        """The nests that pack operands."""
        return [copy for operand in self.packed_operands for copy in operand.copies]

    def fills(self) -> list[Stmt]:
        """Returns nests that fill padded operands with zeros."""
        return [self.fill(operand.ref.buf) for operand in self.packed_operands if operand.is_padded]

    def fill(self, buf: Buf) -> Stmt:
        loops = [self.loop("i", size) for size in buf.shape]
        target = Ref(buf, tuple([Affine.of(counter.sym) for counter in loops]))
        return as_statement(wrap_in_loops(loops, TRUE, (Store(target, Const(0.0, buf.precision)),)))

    def blocks(self) -> Body:
        """Returns the loops over blocks. The longer axis is outside; the operand of the other one stays in the caches,
        in strips if it is too large."""
        product = self.product
        rows, columns = blocks_of(product.row.extent, MAX_ROWS), blocks_of(product.column.extent, product.panel_columns)
        is_row_outside = product.row.extent >= product.column.extent
        outer, inner = (rows, columns) if is_row_outside else (columns, rows)
        body: list[Stmt] = []
        for strips, strip in self.strips(inner):
            body += _in_loop(strips, [nest for blocks in outer for nest in self.nest(blocks, strip, is_row_outside)])
        return wrap_in_loops(product.outer_loops, TRUE, tuple(body)) if product.outer_loops else tuple(body)

    def strips(self, blocks: Sequence[Blocks]) -> list[tuple[For | None, list[Blocks]]]:
        """Divides blocks along the inner axis into strips, with the loop over strips if there are several."""
        full, *rest = blocks
        block_bytes = full.size * self.product.padded_terms * bfloat16.nbytes
        block_bytes *= prod(old.sym.extent for old in self.product.reduction_loops)
        size = max(1, self.strip_bytes // block_bytes)
        if size >= full.count:
            return [(None, [full, *rest])]
        strips = self.loop("strip", full.count // size)
        strip = replace(full, first=Affine.of(strips.sym) * size, count=size)
        rest = [*counted_blocks(full.count // size * size, full.count % size, full.size), *rest]
        return [(strips, [strip]), *([(None, rest)] if rest else [])]

    def nest(self, outer: Blocks, inner: Sequence[Blocks], is_row_outside: bool) -> Body:
        """Returns the loops over the blocks of the outer axis, and within them those of the inner one."""
        names = self.product.row.name, self.product.column.name
        outer_name, inner_name = names if is_row_outside else names[::-1]
        outer_loop = self.loop(outer_name, outer.count)  # even of one iteration, so that this is one nest
        body: list[Stmt] = []
        for blocks in inner:
            inner_loop, inner_number = self.numbered(blocks, inner_name)
            axes = Block(outer.first + outer_loop.sym, outer.size), Block(inner_number, blocks.size)
            body += _in_loop(inner_loop, self.block(*(axes if is_row_outside else axes[::-1])))
        return _in_loop(outer_loop, body)

    def numbered(self, blocks: Blocks, name: str) -> tuple[For | None, Affine]:
        """Returns the loop over blocks, unless there is only one, and the number of a block."""
        if blocks.count == 1:
            return None, blocks.first
        counter = self.loop(name, blocks.count)
        return counter, blocks.first + counter.sym

    def block(self, rows: Block, columns: Block) -> Body:
        """Returns the sums of a block and the epilogue. Sums of parts of the terms are added up."""
        product, names = self.product, self.names
        sums = local_buffer(names("sums"), float32, (rows.size, product.panel_columns))
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
        self, sums: Buf, rows: Block, columns: Block, first_pair: Affine, values: Mapping[Sym, Affine]
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
        left, right = at(self.left.ref, {**values, **terms}), at(self.right.ref, {**values, **pairs})
        loops = tuple([loop(sym, ()) for sym in (*inner.values(), pair)])
        return TileProduct(cell, left, right, row, column, loops).stmt(self.names("acc"))

    def addition(self, sums: Buf, part_sums: Buf) -> Stmt:
        """Returns the nest that adds the sums of a part."""
        loops = [self.loop(sym.name, size) for sym, size in zip(self.product.axes, sums.shape, strict=True)]
        cell = tuple([Affine.of(counter.sym) for counter in loops])
        return as_statement(wrap_in_loops(loops, TRUE, (Update(Ref(sums, cell), ADD, Load(Ref(part_sums, cell))),)))

    def epilogue(self, sums: Buf, rows: Block, columns: Block) -> Stmt:
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

    def first_row(self, rows: Block) -> Affine:
        return rows.number * MAX_ROWS + self.product.row.lo

    def loop(self, name: str, count: int, origin: Origin = NOWHERE) -> For:
        return loop(Sym(self.names(name), 0, count - 1), (), origin)

    def renamed(self, sym: Sym) -> Sym:
        return Sym(self.names(sym.name), sym.lo, sym.hi, sym.kind)


@dataclass(frozen=True, slots=True)
class Block:
    """The number of a block along an axis, and the iterations of the axis in it."""

    number: Affine
    size: int


def _in_loop(counter: For | None, body: Sequence[Stmt]) -> Body:
    return tuple(body) if counter is None else (replace(counter, body=tuple(body)),)

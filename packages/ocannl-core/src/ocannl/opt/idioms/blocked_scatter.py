"""Scatters of long rows whose terms are added in blocks, and the blocks in a wider type."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import Affine, Cond, Sym, SymKind
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Const,
    Expr,
    For,
    If,
    Load,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import Precision, float64, int32, int64
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.substitution import substitute_statements
from ocannl.opt.idioms.row_scatter import (
    RowScatter,
    Values,
    cellwise,
    choice,
    filled,
    loops_over,
    renamed,
    replace_rows,
    temporary,
    with_leaf,
)


def blocked_scatter(
    scatter: RowScatter, initial: Values, max_additions: int, names: Namer
) -> tuple[list[Buf], list[Stmt]] | None:
    """Returns the temporaries and statements of a scatter that adds the terms of a row in blocks of `max_additions`. Of
    the scatter

        for i in 0..9000:
          bind v in 0..50 = i64(ids[i]):
            for j in 0..512:
              x[v, j] += g[i, j]

    two halves are computed independently, by different threads:

        for part in 0..2:
          for i in 0..4500:
            bind v in 0..50 = i64(ids[4500*part+i]):
              for j in 0..512:
                x_block[part, v, j] += g[4500*part+i, j]
              x_counts[part, v] += 1
              bind full in 0..1 = i64(where(x_counts[part, v] == 94, 0, -1)):
                for j_2 in 0..512:
                  x_sums[part, v, j_2] += f64(x_block[part, v, j_2])
                  x_block[part, v, j_2] = 0
                x_counts[part, v] = 0
        for v_2 in 0..50:
          for j_3 in 0..512:
            x[v_2, j_3] = f32(f64(x[v_2, j_3]) + (x_sums[0, v_2, j_3] + f64(x_block[0, v_2, j_3])) + ...)

    `initial` are the values of the table before the scatter. Each term reads and writes half the memory that it would
    with a table in the wider type. The number of parts depends on sizes only, so that results do not depend on the
    number of threads.

    Returns None unless the loops over the cells of a row are innermost.
    """
    outer = scatter.stmt
    if not isinstance(outer, For) or outer.sym not in scatter.term_syms or not _has_inner_rows(scatter):
        return None
    return _BlockBuilder(scatter, outer, max_additions, names).result(initial)


def _has_inner_rows(scatter: RowScatter) -> bool:
    stmt = scatter.stmt
    while not loops_over(scatter.row_syms, stmt):
        if isinstance(stmt, Update) or (isinstance(stmt, For) and stmt.sym in scatter.row_syms):
            return False
        assert isinstance(stmt, For | BindIndex | If)
        stmt = stmt.body[0] if not isinstance(stmt, If) else stmt.then[0]
    return True


def _part_count(scatter: RowScatter, extent: int, bytes_per_part: int) -> int:
    """The number of parts of a loop, all of which have terms, and whose tables together are small beside the terms."""
    ratio = scatter.terms * scatter.width * scatter.update.ref.buf.precision.nbytes // bytes_per_part
    parts = min(machine.MAX_SCATTER_PARTS, ratio // machine.MIN_BYTES_PER_SCATTERED_SUM)
    if parts < 2 <= ratio // machine.MIN_BYTES_PER_HALVED_SUM:
        parts = 2
    size = -(-extent // max(1, parts))
    return -(-extent // size)


class _BlockBuilder:
    def __init__(self, scatter: RowScatter, outer: For, max_additions: int, names: Namer) -> None:
        self.scatter, self.outer, self.max_additions, self.names = scatter, outer, max_additions, names
        self.table = scatter.update.ref.buf
        bytes_per_cell = self.table.precision.nbytes + float64.nbytes
        self.parts = _part_count(scatter, outer.sym.extent, scatter.count * scatter.width * bytes_per_cell)
        self.block = self.temporary("block", self.table.precision, self.table.shape)
        self.sums = self.temporary("sums", float64, self.table.shape)
        self.counts = self.temporary("counts", int32, (scatter.count,))

    def temporary(self, name: str, kind: Precision, shape: tuple[int, ...]) -> Buf:
        return temporary(self.names(f"{self.table.name}_{name}"), kind, (self.parts, *shape))

    def result(self, initial: Values) -> tuple[list[Buf], list[Stmt]]:
        temporaries = [self.block, self.sums, self.counts]
        return temporaries, [
            *(filled(self.names, buf) for buf in temporaries),
            renamed(self.names, self.scatter_of_parts()),
            self.total(initial),
        ]

    def scatter_of_parts(self) -> Stmt:
        old = self.outer.sym
        size = -(-old.extent // self.parts)
        part, inner = Sym(self.names("part"), 0, self.parts - 1), Sym(self.names(old.name), 0, size - 1)
        iteration = Affine(((size, part), (1, inner)))
        (stmt,) = self.outer.body
        body = replace_rows(stmt, self.scatter.row_syms, lambda rows: self.addition(rows, Affine.of(part)))
        body = substitute_statements(body, {old: iteration + old.lo})
        if size * self.parts > old.extent:
            body = (If(Cond((Affine.of(old.extent - 1) - iteration,)), body),)
        return loop(part, (loop(inner, body, self.outer.origin),))

    def addition(self, stmt: Stmt, part: Affine) -> Body:
        """Adds a row to its block, and the block to the sums once it is full."""
        update = self.scatter.update
        cell = (part, *update.ref.indices)
        block, count = Ref(self.block, cell), Ref(self.counts, (part, self.scatter.key(update.ref.indices)))
        is_full = Apply(BY_NAME["eq"], (Load(count), Const(self.max_additions, int32)))
        full = Sym(self.names("full"), 0, 0, SymKind.INDIRECT)
        flush = (
            Update(Ref(self.sums, cell), ADD, Cast(Load(block), float64)),
            Store(block, Const(0, self.table.precision)),
        )
        return (
            *with_leaf(stmt, (replace(update, ref=block),)),
            Update(count, ADD, Const(1, int32)),
            BindIndex(
                full,
                Cast(choice(is_full, Const(0, int32), Const(-1, int32)), int64),
                (*with_leaf(stmt, flush), Store(count, Const(0, int32))),
            ),
        )

    def total(self, initial: Values) -> Stmt:
        """Adds the parts to the table."""
        origin = self.scatter.update.origin

        def stored(cell: tuple[Affine, ...]) -> Stmt:
            value: Expr = Cast(initial(cell), float64)
            for part in range(self.parts):
                block, sums = (Load(Ref(buf, (Affine((), part), *cell))) for buf in (self.block, self.sums))
                value = Apply(ADD, (value, Apply(ADD, (sums, Cast(block, float64)))))
            return Store(Ref(self.table, cell), Cast(value, self.table.precision), origin)

        return cellwise(self.table, self.names, stored)

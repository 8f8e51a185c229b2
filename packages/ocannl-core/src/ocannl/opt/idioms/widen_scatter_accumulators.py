"""Accumulates scatters of many terms in a wider type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.loops import (
    BindIndex,
    Body,
    Buf,
    Cast,
    Const,
    For,
    If,
    Load,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    is_full,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float32, float64
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names, loads
from ocannl.opt.idioms.blocked_scatter import blocked_scatter
from ocannl.opt.idioms.frequent_cells import compensated, finite, with_wide_frequent_cells
from ocannl.opt.idioms.row_scatter import RowScatter, Values, cellwise, temporary


def widen_scatter_accumulators(
    proc: Proc, max_additions: int = machine.MAX_ADDITIONS_PER_TERM, *, is_serial: bool = True
) -> Proc:
    """Accumulates in float64 if a scatter adds more than `max_additions` terms; here for at most 2 additions:

        proc step                              proc step
          g   : f32[5]  in                       g      : f32[5]  in
          x   : f32[3]  inout                    x      : f32[3]  inout
          ids : i32[5]  in                       ids    : i32[5]  in
          for i in 0..5:                         x_wide : f64[3]  arena
            bind v in 0..3 = i64(ids[i]):        for x_2 in 0..3:
              x[v] += g[i]                         x_wide[x_2] = f64(x[x_2])
                                         ==>     for i in 0..5:
                                                   bind v in 0..3 = i64(ids[i]):
                                                     x_wide[v] += f64(g[i])
                                                 for x_3 in 0..3:
                                                   x[x_3] = f32(x_wide[x_3])

    All terms may have the same index. Those of long rows are added in blocks (`blocked_scatter`), with one counter
    for each row. In tables whose copies would cost more than the additions, only frequent cells have accumulators
    (`with_wide_frequent_cells`), if the target executes the iterations in order (`is_serial`): in those with more cells
    than there are terms, and, since the terms of wide rows are counted once for each row, in tables of wide rows unless
    there are many times more terms. In float64 itself, the errors of the additions are accumulated as well.
    """
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        scatter = _scatter_of(stmt)
        if scatter is None or scatter.additions <= max_additions:
            body.append(stmt)
            continue
        update = scatter.update
        rows = RowScatter.of(stmt, update, scatter.syms)
        is_row = rows.width >= machine.MIN_COUNTED_ROW
        min_terms = scatter.cells * (machine.MIN_TERMS_PER_WIDENED_CELL if is_row else 1)
        if is_serial and scatter.terms < min_terms:
            replaced = with_wide_frequent_cells(rows, max_additions, names)
        elif update.ref.buf.precision is float64:
            replaced = _compensated(stmt, update, names)
        else:
            needed, initial = _initial_values(tuple(body), update.ref.buf)
            body = [*needed]
            replaced = None
            if is_serial and update.ref.buf.precision is float32 and rows.width >= machine.MIN_BLOCKED_ROW:
                replaced = blocked_scatter(rows, initial, max_additions, names)
            replaced = replaced or _wide(stmt, update, initial, names)
        temporaries, statements = replaced or ([], [stmt])
        bufs += temporaries
        body += statements
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs)) if bufs else proc


@dataclass(frozen=True, slots=True)
class _Scatter:
    """An update at indices that are loaded, and the loops around it."""

    syms: tuple[Sym, ...]
    update: Update

    @property
    def terms(self) -> int:
        return prod(sym.extent for sym in self.syms)

    @property
    def cells(self) -> int:
        """The number of cells of the table."""
        return prod(self.update.ref.buf.shape)

    @property
    def additions(self) -> int:
        """The number of terms that may be added to one cell."""
        indexing = self.update.ref.syms
        return prod(sym.extent for sym in self.syms if sym not in indexing)


def _scatter_of(stmt: Stmt) -> _Scatter | None:
    syms: list[Sym] = []
    bound: list[Ref] = []  # cells that indices are read from
    while True:
        match stmt:
            case For(sym=sym, body=(inner,)) if is_full(stmt):
                syms.append(sym)
                stmt = inner
            case If(_, (inner,), ()):
                stmt = inner
            case BindIndex(_, value, (inner,)):
                bound += loads(value)
                stmt = inner
            case Update(ref, op, value) if op is ADD and ref.buf.precision.is_float:
                is_indirect = any(sym.kind is SymKind.INDIRECT for sym in ref.syms)
                is_recurrence = any(read.buf is ref.buf for read in (*bound, *loads(value)))
                return _Scatter(tuple(syms), stmt) if is_indirect and not is_recurrence else None
            case _:
                return None


def _initial_values(body: Body, table: Buf) -> tuple[Body, Values]:
    """Returns the values of the table after the statements, and those that are needed. If the last one fills the table
    with a constant, it is not: all cells are stored again."""
    stmt: Stmt | None = body[-1] if body else None
    syms: list[Affine] = []
    while isinstance(stmt, For) and is_full(stmt) and len(stmt.body) == 1:
        syms.append(Affine.of(stmt.sym) - stmt.sym.lo)
        (stmt,) = stmt.body
    match stmt:
        case Store(Ref(buf, indices), Const() as value) if buf is table and indices == tuple(syms):
            if tuple(index.only_sym.extent for index in indices if index.only_sym) == table.shape:
                return body[:-1], lambda cell: value
    return body, lambda cell: Load(Ref(table, cell))


def _wide(stmt: Stmt, update: Update, initial: Values, names: Namer) -> tuple[list[Buf], list[Stmt]]:
    """The scatter into a copy of the table in float64."""
    table, wide = update.ref.buf, temporary(names(f"{update.ref.buf.name}_wide"), float64, update.ref.buf.shape)
    scatter = _with_updates(stmt, (_widened(update, wide),))
    return [wide], [
        _converted(initial, wide, table, names, update),
        scatter,
        _converted(lambda cell: Load(Ref(wide, cell)), table, table, names, update),
    ]


def _compensated(stmt: Stmt, update: Update, names: Namer) -> tuple[list[Buf], list[Stmt]]:
    """The scatter in float64 that accumulates its errors and adds them to the table at the end."""
    table, errors = update.ref.buf, temporary(names(f"{update.ref.buf.name}_errors"), float64, update.ref.buf.shape)
    addition = compensated(update.ref, Ref(errors, update.ref.indices), update.value, names)
    return [errors], [
        cellwise(table, names, lambda cell: Store(Ref(errors, cell), Const(0, float64), update.origin)),
        _with_updates(stmt, addition),
        cellwise(
            table, names, lambda cell: Update(Ref(table, cell), ADD, finite(Load(Ref(errors, cell))), update.origin)
        ),
    ]


def _widened(update: Update, wide: Buf) -> Update:
    return replace(update, ref=Ref(wide, update.ref.indices), value=Cast(update.value, float64))


def _with_updates(stmt: Stmt, updates: Body) -> Stmt:
    (result,) = _replaced(stmt, updates)
    return result


def _replaced(stmt: Stmt, updates: Body) -> Body:
    match stmt:
        case For(body=(inner,)) | BindIndex(body=(inner,)):
            return (replace(stmt, body=_replaced(inner, updates)),)
        case If(cond, (inner,), ()):
            return (If(cond, _replaced(inner, updates)),)
        case _:
            return updates


def _converted(values: Values, target: Buf, table: Buf, names: Namer, update: Update) -> Stmt:
    """Stores values, converted, in the table or its copy; the statement belongs to the update."""

    def converted(cell: tuple[Affine, ...]) -> Stmt:
        return Store(Ref(target, cell), Cast(values(cell), target.precision), update.origin)

    return cellwise(table, names, converted)

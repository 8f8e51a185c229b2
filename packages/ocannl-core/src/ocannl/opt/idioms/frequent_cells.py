"""Scatters of which only frequent cells are accumulated, in a wider type or with compensation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Sym, SymKind
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    MemorySpace,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME, SUB, WHERE
from ocannl.ir.precision import Precision, float64, int32, int64
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import wrap_in_loops
from ocannl.opt.analysis.substitution import substitute_statements

MAX_INT32 = 2**31 - 1
HASH_FACTOR, HASH_BITS = 2654435769, 32  # of multiplicative hashing by the golden ratio (Knuth 1973)


def with_wide_frequent_cells(
    stmt: Stmt, update: Update, syms: tuple[Sym, ...], max_additions: int, names: Namer
) -> tuple[list[Buf], list[Stmt]] | None:
    """Returns the temporaries and statements of a scatter that accumulates a row of cells with more than
    `max_additions` terms in float64, from then on. Of the scatter

        for i in 0..900:
          bind v in 0..5000 = i64(ids[i]):
            for j in 0..64:
              x[v, j] += g[i, j]

    `x_ranks` numbers the terms of each row from 1. A row that has 94 terms gets a slot, of which 9 suffice, and further
    terms the number -1 minus the slot:

        for i in 0..900:
          bind v in 0..5000 = i64(ids[i]):
            let is_full = x_counts[v] == 94
            let rank = where(is_full, -1 - x_slots[0], x_counts[v] + (x_counts[v] >= 0))
            bind slot in 0..9 = i64(where(is_full, x_slots[0], -1)):
              x_rows[slot] = v
              x_slots[0] += 1
            x_counts[v] = rank
            x_ranks[i] = rank

    The terms are then added to the row or to the accumulators of its slot:

        for i in 0..900:
          bind v in 0..5000 = i64(ids[i]):
            bind rare in 1..95 = i64(x_ranks[i]):
              for j in 0..64:
                x[v, j] += g[i, j]
        for i in 0..900:
          bind v in 0..5000 = i64(ids[i]):
            bind slot in 0..9 = i64(-1 - x_ranks[i]):
              for j in 0..64:
                x_sums[slot, j] += f64(g[i, j])
        for slot in 0..9:
          bind v in 0..5000 = x_rows[slot]:
            for j in 0..64:
              x[v, j] += f32(x_sums[slot, j])

    Only the first pass reads integers at random. In float64 itself, the errors of the additions are accumulated as well
    (Ogita, Rump and Oishi 2005). For a large table, whose counts are not in a cache, the first pass and those of the
    accumulators depend on a sketch: a count of the terms of hashed rows in few buckets.

    Returns None if there are too many terms to count.
    """
    scatter = _RowScatter.of(stmt, update, syms)
    slots = scatter.terms // (max_additions + 1)
    if not slots or scatter.terms > MAX_INT32 or not scatter.count:
        return None
    return _Builder(scatter, slots, max_additions, names).result()


def row_width(stmt: Stmt, update: Update, syms: tuple[Sym, ...]) -> int:
    """The number of cells that have the same number of terms."""
    return _RowScatter.of(stmt, update, syms).width


@dataclass(frozen=True, slots=True)
class _RowScatter:
    """A scatter of rows: `row_axes` of the table are indexed by loops that nothing else depends on, `key_axes` by the
    others, so that all cells of a row have the same number of terms."""

    stmt: Stmt
    update: Update
    row_syms: tuple[Sym, ...]
    term_syms: tuple[Sym, ...]
    key_axes: tuple[int, ...]
    row_axes: tuple[int, ...]

    @staticmethod
    def of(stmt: Stmt, update: Update, syms: tuple[Sym, ...]) -> _RowScatter:
        indices, bound = update.ref.indices, set(_bound_on(stmt))
        rows = {axis: index.only_sym for axis, index in enumerate(indices)}
        users = [sym for index in indices for sym in index.syms]
        shape = update.ref.buf.shape
        row_axes = tuple(
            axis for axis, sym in rows.items()
            if sym in syms and sym not in bound and users.count(sym) == 1 and sym.lo == 0 and sym.extent == shape[axis]
        )  # fmt: skip
        row_syms = tuple(sym for axis in row_axes if (sym := rows[axis]) is not None)
        key_axes = tuple(axis for axis in range(len(indices)) if axis not in row_axes)
        return _RowScatter(stmt, update, row_syms, tuple(s for s in syms if s not in row_syms), key_axes, row_axes)

    @property
    def terms(self) -> int:
        """The number of terms of a cell, at most."""
        return prod(sym.extent for sym in self.term_syms)

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(self.update.ref.buf.shape[axis] for axis in self.key_axes)

    @property
    def count(self) -> int:
        """The number of rows."""
        return prod(self.keys)

    @property
    def width(self) -> int:
        """The number of cells of a row."""
        return prod(self.update.ref.buf.shape[axis] for axis in self.row_axes)

    def key(self, indices: tuple[Affine, ...]) -> Affine:
        """The number of the row that contains a cell."""
        parts = zip((indices[axis] for axis in self.key_axes), row_major(self.keys), strict=True)
        return sum((index * stride for index, stride in parts), Affine())


class _Builder:
    def __init__(self, scatter: _RowScatter, slots: int, max_additions: int, names: Namer) -> None:
        self.scatter, self.max_additions, self.names = scatter, max_additions, names
        self.table = scatter.update.ref.buf
        row = tuple(self.table.shape[axis] for axis in scatter.row_axes)
        self.counts = self.temporary("counts", int32, (scatter.count,))
        self.ranks = self.temporary("ranks", int32, tuple(sym.extent for sym in scatter.term_syms))
        self.slots = self.temporary("slots", int32, (1,))
        self.rows = self.temporary("rows", int64, (slots, len(scatter.key_axes)))
        self.sums = self.temporary("sums", float64, (slots, *row))
        self.errors = self.temporary("errors", float64, (slots, *row)) if self.table.precision is float64 else None

    def temporary(self, name: str, kind: Precision, shape: tuple[int, ...]) -> Buf:
        label = self.names(f"{self.table.name}_{name}")
        return Buf(label, kind, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP)

    @property
    def accumulators(self) -> list[Buf]:
        return [self.sums, *([] if self.errors is None else [self.errors])]

    def result(self) -> tuple[list[Buf], list[Stmt]]:
        scatter, update = self.scatter, self.scatter.update
        rare = Sym(self.names("rare"), 1, self.max_additions, SymKind.INDIRECT)
        slot = self.slot_symbol(SymKind.INDIRECT)
        temporaries = [self.counts, self.ranks, self.slots, self.rows, *self.accumulators]
        numbering = [
            self.filled(self.counts),
            self.filled(self.slots),
            self.renamed(self.over_rows(scatter.stmt, self.numbering())),
        ]
        addition = [
            *map(self.filled, self.accumulators),
            self.renamed(self.guarded(scatter.stmt, (slot, Cast(self.slot, int64)), self.accumulation(slot))),
            self.addition(),
        ]
        if scatter.count >= machine.MIN_SKETCHED_ROWS:
            buckets, largest, sketch = self.sketch()
            temporaries += [buckets, largest]
            numbering = [*sketch, self.where_frequent(largest, numbering)]
            addition = [self.where_frequent(largest, addition)]
        additions = self.guarded(scatter.stmt, (rare, Cast(Load(self.rank), int64)), (update,))
        initialization = [self.filled(self.ranks, 1), self.filled(self.rows, -1)]
        return temporaries, [*initialization, *numbering, additions, *addition]

    def sketch(self) -> tuple[Buf, Buf, list[Stmt]]:
        """Counts terms by hashed rows, in a small table, and the terms of the largest bucket."""
        scatter = self.scatter
        bits = max(1, (scatter.terms // machine.TERMS_PER_BUCKET).bit_length())
        buckets, largest = self.temporary("buckets", int32, (1 << bits,)), self.temporary("largest", int32, (1,))
        key = IndexValue(scatter.key(scatter.update.ref.indices), int64)
        product = Apply(BY_NAME["mul"], (key, Const(HASH_FACTOR, int64)))
        low_bits = Apply(BY_NAME["bitwise_and"], (product, Const((1 << HASH_BITS) - 1, int64)))
        hashed = Apply(BY_NAME["right_shift"], (low_bits, Const(HASH_BITS - bits, int64)))
        bucket = Sym(self.names("bucket"), 0, (1 << bits) - 1, SymKind.INDIRECT)
        (element,) = self.loop_symbols(buckets.shape)
        counting = BindIndex(bucket, hashed, (Update(Ref(buckets, (Affine.of(bucket),)), ADD, Const(1, int32)),))
        maximum = Update(Ref(largest, (Affine(),)), BY_NAME["max"], Load(Ref(buckets, (Affine.of(element),))))
        return buckets, largest, [
            self.filled(buckets),
            self.filled(largest),
            self.renamed(self.over_rows(scatter.stmt, (counting,))),
            self.nest([element], maximum),
        ]

    def where_frequent(self, largest: Buf, stmts: list[Stmt]) -> Stmt:
        """The statements, if a row may have too many terms."""
        most = Sym(self.names("most"), self.max_additions + 1, MAX_INT32, SymKind.INDIRECT)
        return BindIndex(most, Cast(Load(Ref(largest, (Affine(),))), int64), tuple(stmts))

    @property
    def rank(self) -> Ref:
        """The number of a term among those of its row, from 1, or -1 minus the slot of the row."""
        return Ref(self.ranks, tuple(Affine.of(sym) - sym.lo for sym in self.scatter.term_syms))

    @property
    def slot(self) -> Expr:
        return _difference(Const(-1, int32), Load(self.rank))

    def numbering(self) -> Body:
        """Numbers a term, and gives a slot to a row that is full."""
        indices = self.scatter.update.ref.indices
        number, free = Ref(self.counts, (self.scatter.key(indices),)), Ref(self.slots, (Affine(),))
        count, rank = Var(self.names("count"), int32), Var(self.names("rank"), int32)
        is_full = Apply(BY_NAME["eq"], (count, Const(self.max_additions, int32)))
        is_counted = Apply(BY_NAME["ge"], (count, Const(0, int32)))
        next_count = Apply(ADD, (count, _choice(is_counted, Const(1, int32), Const(0, int32))))
        slot = self.slot_symbol(SymKind.INDIRECT)
        number_of_slot = Cast(_choice(is_full, Load(free), Const(-1, int32)), int64)
        row = tuple(
            Store(Ref(self.rows, (Affine.of(slot), Affine.of(n))), IndexValue(indices[axis], int64))
            for n, axis in enumerate(self.scatter.key_axes)
        )
        return (
            Let(count.name, Load(number)),
            Let(rank.name, _choice(is_full, _difference(Const(-1, int32), Load(free)), next_count)),
            BindIndex(slot, number_of_slot, (*row, Update(free, ADD, Const(1, int32)))),
            Store(number, rank),
            Store(self.rank, rank),
        )

    def accumulation(self, slot: Sym) -> Body:
        """Adds a term to the accumulators."""
        value, cell = self.scatter.update.value, self.accumulator_indices(slot)
        if self.errors is not None:
            return compensated(Ref(self.sums, cell), Ref(self.errors, cell), value, self.names)
        return (Update(Ref(self.sums, cell), ADD, Cast(value, float64)),)

    def accumulator_indices(self, slot: Sym) -> tuple[Affine, ...]:
        cell = self.scatter.update.ref.indices
        return (Affine.of(slot), *(cell[axis] for axis in self.scatter.row_axes))

    def slot_symbol(self, kind: SymKind) -> Sym:
        return Sym(self.names("slot"), 0, self.sums.shape[0] - 1, kind)

    def filled(self, buf: Buf, value: int = 0) -> Stmt:
        syms = self.loop_symbols(buf.shape)
        return self.nest(syms, Store(Ref(buf, tuple(map(Affine.of, syms))), Const(value, buf.precision)))

    def addition(self) -> Stmt:
        """Adds the accumulators to the rows."""
        slot = self.slot_symbol(SymKind.LOOP)
        total, *errors = (Load(Ref(buf, self.accumulator_indices(slot))) for buf in self.accumulators)
        value = Apply(ADD, (total, finite(*errors))) if errors else Cast(total, self.table.precision)
        cell = list(self.scatter.update.ref.indices)
        keys = [Sym(self.names("key"), 0, extent - 1, SymKind.INDIRECT) for extent in self.scatter.keys]
        for axis, key in zip(self.scatter.key_axes, keys, strict=True):
            cell[axis] = Affine.of(key)
        update = Update(Ref(self.table, tuple(cell)), ADD, value, self.scatter.update.origin)
        stmt = self.nest(list(self.scatter.row_syms), update)
        for n, key in reversed(tuple(enumerate(keys))):
            stmt = BindIndex(key, Load(Ref(self.rows, (Affine.of(slot), Affine.of(n)))), (stmt,))
        return self.renamed(loop(slot, (stmt,)))

    def loop_symbols(self, shape: Iterable[int]) -> list[Sym]:
        return [Sym(self.names("i"), 0, extent - 1) for extent in shape]

    def nest(self, syms: list[Sym], stmt: Stmt) -> Stmt:
        (nest,) = wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (stmt,))
        return nest

    def over_rows(self, stmt: Stmt, leaf: Body) -> Stmt:
        """The scatter with other statements, once for each row."""
        (result,) = self.without_rows(stmt, leaf)
        return result

    def without_rows(self, stmt: Stmt, leaf: Body) -> Body:
        match stmt:
            case For(sym=sym, body=(inner,)):
                body = self.without_rows(inner, leaf)
                return body if sym in self.scatter.row_syms else (replace(stmt, body=body),)
            case BindIndex(body=(inner,)):
                return (replace(stmt, body=self.without_rows(inner, leaf)),)
            case If(cond, (inner,), ()):
                return (If(cond, self.without_rows(inner, leaf)),)
            case _:
                return leaf

    def guarded(self, stmt: Stmt, guard: tuple[Sym, Expr], leaf: Body) -> Stmt:
        """The scatter with another update, where the guard is in range; loops over rows alone are inside the guard."""
        if _loops_over(self.scatter.row_syms, stmt):
            return BindIndex(*guard, _with_leaf(stmt, leaf))
        match stmt:
            case For(body=(inner,)) | BindIndex(body=(inner,)):
                return replace(stmt, body=(self.guarded(inner, guard, leaf),))
            case If(cond, (inner,), ()):
                return If(cond, (self.guarded(inner, guard, leaf),))
            case _:
                raise AssertionError(f"{type(stmt).__name__} in a scatter")

    def renamed(self, stmt: Stmt) -> Stmt:
        """A copy with symbols of its own."""
        match stmt:
            case For(sym=sym, body=body) | BindIndex(sym=sym, body=body):
                new = Sym(self.names(sym.name), sym.lo, sym.hi, sym.kind)
                body = substitute_statements(tuple(map(self.renamed, body)), {sym: Affine.of(new)})
                return loop(new, body, stmt.origin) if isinstance(stmt, For) else BindIndex(new, stmt.value, body)
            case If(cond, body, ()):
                return If(cond, tuple(map(self.renamed, body)))
            case _:
                return stmt


def _bound_on(stmt: Stmt) -> Iterable[Sym]:
    """The symbols that bound indices and conditions depend on."""
    match stmt:
        case For(body=(inner,)):
            yield from _bound_on(inner)
        case BindIndex(_, value, (inner,)):
            yield from free_symbols(value)
            yield from _bound_on(inner)
        case If(cond, (inner,), ()):
            yield from (sym for fact in (*cond.ge0, *cond.eq0) for sym in fact.syms)
            yield from _bound_on(inner)


def _loops_over(syms: tuple[Sym, ...], stmt: Stmt) -> bool:
    """Whether the statement is an update, below loops over `syms` alone."""
    while isinstance(stmt, For) and stmt.sym in syms:
        (stmt,) = stmt.body
    return isinstance(stmt, Update)


def _with_leaf(stmt: Stmt, leaf: Body) -> Body:
    return (replace(stmt, body=_with_leaf(stmt.body[0], leaf)),) if isinstance(stmt, For) else leaf


def _choice(condition: Expr, x: Expr, y: Expr) -> Expr:
    return Apply(WHERE, (condition, x, y))


def _difference(x: Expr, y: Expr) -> Expr:
    return Apply(SUB, (x, y))


def finite(error: Expr) -> Expr:
    """The error, or 0 if the sum is infinite, whose error is not a number."""
    return Apply(WHERE, (Apply(BY_NAME["eq"], (error, error)), error, Const(0, float64)))


def compensated(total: Ref, errors: Ref, value: Expr, names: Namer) -> Body:
    """Adds a value to a total in float64, and the error of the addition to another sum (Knuth 1969, TwoSum)."""
    texts = [names(name) for name in ("term", "before", "after", "added")]
    term, before, after, added = (Var(name, float64) for name in texts)
    lost = Apply(ADD, (_difference(before, _difference(after, added)), _difference(term, added)))
    return (
        Let(term.name, value),
        Let(before.name, Load(total)),
        Let(after.name, Apply(ADD, (before, term))),
        Let(added.name, _difference(after, before)),
        Update(errors, ADD, lost),
        Store(total, after),
    )

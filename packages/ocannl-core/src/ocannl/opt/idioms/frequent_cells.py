"""Scatters of which only frequent cells are accumulated, in a wider type or with compensation."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import Affine, Sym, SymKind
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
    IndexValue,
    Let,
    Load,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    loop,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME, WHERE
from ocannl.ir.precision import Precision, float64, int32, int64
from ocannl.opt import machine_model as machine
from ocannl.opt.idioms.row_scatter import (
    RowScatter,
    choice,
    difference,
    filled,
    nest,
    renamed,
    replace_rows,
    temporary,
    with_leaf,
)

MAX_INT32 = 2**31 - 1
HASH_FACTOR, HASH_BITS = 2654435769, 32  # of multiplicative hashing by the golden ratio (Knuth 1973)


def with_wide_frequent_cells(
    scatter: RowScatter, max_additions: int, names: Namer
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
    slots = scatter.terms // (max_additions + 1)
    if not slots or scatter.terms > MAX_INT32 or not scatter.count:
        return None
    return _Builder(scatter, slots, max_additions, names).result()


class _Builder:
    def __init__(self, scatter: RowScatter, slots: int, max_additions: int, names: Namer) -> None:
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
        return temporary(self.names(f"{self.table.name}_{name}"), kind, shape)

    @property
    def accumulators(self) -> list[Buf]:
        return [self.sums, *([] if self.errors is None else [self.errors])]

    def result(self) -> tuple[list[Buf], list[Stmt]]:
        scatter, update = self.scatter, self.scatter.update
        rare = Sym(self.names("rare"), 1, self.max_additions, SymKind.INDIRECT)
        slot = self.slot_symbol(SymKind.INDIRECT)
        temporaries = [self.counts, self.ranks, self.slots, self.rows, *self.accumulators]
        numbering = [
            filled(self.names, self.counts),
            filled(self.names, self.slots),
            renamed(self.names, self.over_rows(scatter.stmt, self.numbering())),
        ]
        addition = [
            *(filled(self.names, buf) for buf in self.accumulators),
            renamed(self.names, self.guarded(scatter.stmt, (slot, Cast(self.slot, int64)), self.accumulation(slot))),
            self.addition(),
        ]
        if scatter.count >= machine.MIN_SKETCHED_ROWS:
            buckets, largest, sketch = self.sketch()
            temporaries += [buckets, largest]
            numbering = [*sketch, self.where_frequent(largest, numbering)]
            addition = [self.where_frequent(largest, addition)]
        additions = self.guarded(scatter.stmt, (rare, Cast(Load(self.rank), int64)), (update,))
        initialization = [filled(self.names, self.ranks, 1), filled(self.names, self.rows, -1)]
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
        element = Sym(self.names("i"), 0, buckets.shape[0] - 1)
        counting = BindIndex(bucket, hashed, (Update(Ref(buckets, (Affine.of(bucket),)), ADD, Const(1, int32)),))
        maximum = Update(Ref(largest, (Affine(),)), BY_NAME["max"], Load(Ref(buckets, (Affine.of(element),))))
        return buckets, largest, [
            filled(self.names, buckets),
            filled(self.names, largest),
            renamed(self.names, self.over_rows(scatter.stmt, (counting,))),
            nest([element], maximum),
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
        return difference(Const(-1, int32), Load(self.rank))

    def numbering(self) -> Body:
        """Numbers a term, and gives a slot to a row that is full."""
        indices = self.scatter.update.ref.indices
        number, free = Ref(self.counts, (self.scatter.key(indices),)), Ref(self.slots, (Affine(),))
        count, rank = Var(self.names("count"), int32), Var(self.names("rank"), int32)
        is_full = Apply(BY_NAME["eq"], (count, Const(self.max_additions, int32)))
        is_counted = Apply(BY_NAME["ge"], (count, Const(0, int32)))
        next_count = Apply(ADD, (count, choice(is_counted, Const(1, int32), Const(0, int32))))
        slot = self.slot_symbol(SymKind.INDIRECT)
        number_of_slot = Cast(choice(is_full, Load(free), Const(-1, int32)), int64)
        row = tuple(
            Store(Ref(self.rows, (Affine.of(slot), Affine.of(n))), IndexValue(indices[axis], int64))
            for n, axis in enumerate(self.scatter.key_axes)
        )
        return (
            Let(count.name, Load(number)),
            Let(rank.name, choice(is_full, difference(Const(-1, int32), Load(free)), next_count)),
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
        stmt = nest(list(self.scatter.row_syms), update)
        for n, key in reversed(tuple(enumerate(keys))):
            stmt = BindIndex(key, Load(Ref(self.rows, (Affine.of(slot), Affine.of(n)))), (stmt,))
        return renamed(self.names, loop(slot, (stmt,)))

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
        (result,) = replace_rows(
            stmt, self.scatter.row_syms, lambda rows: (BindIndex(*guard, with_leaf(rows, leaf)),)
        )
        return result


def finite(error: Expr) -> Expr:
    """The error, or 0 if the sum is infinite, whose error is not a number."""
    return Apply(WHERE, (Apply(BY_NAME["eq"], (error, error)), error, Const(0, float64)))


def compensated(total: Ref, errors: Ref, value: Expr, names: Namer) -> Body:
    """Adds a value to a total in float64, and the error of the addition to another sum (Knuth 1969, TwoSum)."""
    texts = [names(name) for name in ("term", "before", "after", "added")]
    term, before, after, added = (Var(name, float64) for name in texts)
    lost = Apply(ADD, (difference(before, difference(after, added)), difference(term, added)))
    return (
        Let(term.name, value),
        Let(before.name, Load(total)),
        Let(after.name, Apply(ADD, (before, term))),
        Let(added.name, difference(after, before)),
        Update(errors, ADD, lost),
        Store(total, after),
    )

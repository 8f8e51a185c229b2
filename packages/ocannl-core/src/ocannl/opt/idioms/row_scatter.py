"""Scatters of rows of a table, and statements from which passes build their replacements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.free_symbols import free_symbols
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
    MemorySpace,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import SUB, WHERE
from ocannl.ir.precision import Precision
from ocannl.opt.analysis.nests import wrap_in_loops
from ocannl.opt.analysis.substitution import substitute_statements

Values = Callable[[tuple[Affine, ...]], Expr]  # of the cells of an array


@dataclass(frozen=True, slots=True)
class RowScatter:
    """A scatter of rows: `row_axes` of the table are indexed by loops that nothing else depends on, `key_axes` by the
    others, so that all cells of a row have the same number of terms."""

    stmt: Stmt
    update: Update
    row_syms: tuple[Sym, ...]
    term_syms: tuple[Sym, ...]
    key_axes: tuple[int, ...]
    row_axes: tuple[int, ...]

    @staticmethod
    def of(stmt: Stmt, update: Update, syms: tuple[Sym, ...]) -> RowScatter:
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
        return RowScatter(stmt, update, row_syms, tuple(s for s in syms if s not in row_syms), key_axes, row_axes)

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


def loops_over(syms: tuple[Sym, ...], stmt: Stmt) -> bool:
    """Whether the statement is an update, below loops over `syms` alone."""
    while isinstance(stmt, For) and stmt.sym in syms:
        (stmt,) = stmt.body
    return isinstance(stmt, Update)


def replace_rows(stmt: Stmt, row_syms: tuple[Sym, ...], replacement: Callable[[Stmt], Body]) -> Body:
    """Replaces the loops over the cells of a row in a scatter, in which they are innermost, with the update in them."""
    if loops_over(row_syms, stmt):
        return replacement(stmt)
    match stmt:
        case For(body=(inner,)) | BindIndex(body=(inner,)):
            return (replace(stmt, body=replace_rows(inner, row_syms, replacement)),)
        case If(cond, (inner,), ()):
            return (If(cond, replace_rows(inner, row_syms, replacement)),)
        case _:
            raise AssertionError(f"{type(stmt).__name__} in a scatter")


def with_leaf(stmt: Stmt, leaf: Body) -> Body:
    """The loops of a perfect nest around other statements."""
    return (replace(stmt, body=with_leaf(stmt.body[0], leaf)),) if isinstance(stmt, For) else leaf


def temporary(name: str, kind: Precision, shape: tuple[int, ...]) -> Buf:
    return Buf(name, kind, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP)


def filled(names: Namer, buf: Buf, value: int = 0) -> Stmt:
    """Stores a value in all cells of a buffer."""
    return cellwise(buf, names, lambda cell: Store(Ref(buf, cell), Const(value, buf.precision)), "i")


def cellwise(
    buf: Buf, names: Namer, statement: Callable[[tuple[Affine, ...]], Stmt], name: str | None = None
) -> Stmt:
    """A statement for each cell of a buffer, in loops named after it or by `name`."""
    syms = [Sym(names(name or buf.name), 0, extent - 1) for extent in buf.shape]
    return nest(syms, statement(tuple(map(Affine.of, syms))))


def nest(syms: Sequence[Sym], stmt: Stmt) -> Stmt:
    """The statement in loops over the symbols, or the statement itself for none."""
    (result,) = wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (stmt,))
    return result


def renamed(names: Namer, stmt: Stmt) -> Stmt:
    """A copy of loops and conditions with symbols of its own; statements in them keep the names of their values."""
    match stmt:
        case For(sym=sym, body=body) | BindIndex(sym=sym, body=body):
            new = Sym(names(sym.name), sym.lo, sym.hi, sym.kind)
            body = substitute_statements(tuple(renamed(names, child) for child in body), {sym: Affine.of(new)})
            return loop(new, body, stmt.origin) if isinstance(stmt, For) else BindIndex(new, stmt.value, body)
        case If(cond, body, ()):
            return If(cond, tuple(renamed(names, child) for child in body))
        case _:
            return stmt


def choice(condition: Expr, x: Expr, y: Expr) -> Expr:
    return Apply(WHERE, (condition, x, y))


def difference(x: Expr, y: Expr) -> Expr:
    return Apply(SUB, (x, y))

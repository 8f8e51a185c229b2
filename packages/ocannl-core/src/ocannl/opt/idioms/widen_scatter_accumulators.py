"""Accumulates scatters of many terms in a wider type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    BindIndex,
    Buf,
    Cast,
    For,
    If,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    is_full,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float64
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names, loads, wrap_in_loops


def widen_scatter_accumulators(proc: Proc, max_additions: int = machine.MAX_ADDITIONS_PER_TERM) -> Proc:
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

    All terms may have the same index, and they cannot be added in blocks without a table for each block. Tables with
    more cells than there are terms are left as they are, since copies of these would cost more than the additions.
    """
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        scatter = _scatter_of(stmt)
        if scatter is None or scatter.terms < scatter.min_terms or scatter.additions <= max_additions:
            body.append(stmt)
            continue
        buf = scatter.update.ref.buf
        wide = Buf(
            names(f"{buf.name}_wide"), float64, buf.shape, row_major(buf.shape), MemorySpace.ARENA, AccessMode.TEMP
        )
        bufs.append(wide)
        body += (_copy(buf, wide, names), _with_update(stmt, _widened(scatter.update, wide)), _copy(wide, buf, names))
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
    def min_terms(self) -> int:
        """The number of cells of the table."""
        return prod(self.update.ref.buf.shape)

    @property
    def additions(self) -> int:
        """The number of terms that may be added to one cell."""
        indexing = self.update.ref.syms
        return prod(sym.extent for sym in self.syms if sym not in indexing)


def _scatter_of(stmt: Stmt) -> _Scatter | None:
    syms: list[Sym] = []
    while True:
        match stmt:
            case For(sym=sym, body=(inner,)) if is_full(stmt):
                syms.append(sym)
                stmt = inner
            case If(_, (inner,), ()) | BindIndex(_, _, (inner,)):
                stmt = inner
            case Update(ref, op, value) if op is ADD and ref.buf.precision.is_float:
                is_indirect = any(sym.kind is SymKind.INDIRECT for sym in ref.syms)
                is_recurrence = any(read.buf is ref.buf for read in loads(value))
                is_wide = ref.buf.precision is float64
                return _Scatter(tuple(syms), stmt) if is_indirect and not is_recurrence and not is_wide else None
            case _:
                return None


def _widened(update: Update, wide: Buf) -> Update:
    return replace(update, ref=Ref(wide, update.ref.indices), value=Cast(update.value, float64))


def _with_update(stmt: Stmt, update: Update) -> Stmt:
    match stmt:
        case For(body=(inner,)) | BindIndex(body=(inner,)):
            return replace(stmt, body=(_with_update(inner, update),))
        case If(cond, (inner,), ()):
            return If(cond, (_with_update(inner, update),))
        case _:
            return update


def _copy(source: Buf, target: Buf, names: Namer) -> Stmt:
    name = min(source.name, target.name, key=len)
    syms = [Sym(names(name), 0, extent - 1) for extent in source.shape]
    indices = tuple(map(Affine.of, syms))
    store = Store(Ref(target, indices), Cast(Load(Ref(source, indices)), target.precision))
    (stmt,) = wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (store,))
    return stmt

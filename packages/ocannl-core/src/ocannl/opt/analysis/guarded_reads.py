"""Reads under guards along short loops, such as those of rolled and concatenated axes of a few cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from ocannl.ir.affine import TRUE, Cond, Sym
from ocannl.ir.loops import Expr, Load, Ref, When
from ocannl.ir.walk import children
from ocannl.opt import machine_model as machine


def guarded_reads(expr: Expr, guard: Cond = TRUE) -> Iterator[tuple[Ref, Cond]]:
    """Yields the reads of an expression, with the guards around each."""
    match expr:
        case Load(ref):
            yield ref, guard
        case When(cond, on_true, on_false):
            yield from guarded_reads(on_true, guard & cond)
            yield from guarded_reads(on_false, guard)
        case _:
            for operand in children(expr):
                yield from guarded_reads(operand, guard)  # type: ignore[arg-type]


def iterations_of_guard(syms: Iterable[Sym], guard: Cond) -> int | None:
    """Returns the number of iterations in which the guard holds; None unless each of its facts bounds a short loop,
    whose iterations are no lanes of vectors."""
    trips: dict[Sym, Sequence[int]] = {sym: range(sym.lo, sym.hi + 1) for sym in syms}
    for fact in guard.ge0:
        sym, *others = fact.syms
        if others or sym not in trips or sym.extent >= machine.ELEMENTS_PER_LINE:
            return None
        trips[sym] = [n for n in trips[sym] if fact.evaluate({sym: n}) >= 0]
    return None if guard.eq0 else prod(map(len, trips.values()))

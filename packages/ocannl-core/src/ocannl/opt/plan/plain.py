"""The schedule that needs no model: sums stay in registers, and the innermost loop walks along memory."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.index import Sym
from ocannl.ir.loops import Ref, Store
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.ir.projections import is_injective
from ocannl.opt.nest import Nest, is_whole, loads

WAYS = 4  # an addition takes about four cycles, and one can begin in each
REORDERED = (ADD, MAX, MIN)  # of a product, one part may overflow where another is zero
SMALL = 4  # loads in a term of a sum above which its latency no longer counts


@dataclass(frozen=True, slots=True)
class Plain:
    """Loops in this order, `reduced` inside `kept`; `ways` partial sums take turns along the innermost reduced loop.

    With no reduced loops the nest writes memory at every step.
    """

    kept: tuple[Sym, ...]
    reduced: tuple[Sym, ...] = ()
    ways: int = 1

    @property
    def takes_start(self) -> bool:
        """Whether the nest writes each cell once, so that what the cells start from can be part of it."""
        return bool(self.reduced)


def plain(nest: Nest) -> Plain:
    leaf = nest.leaf
    syms = tuple([loop.sym for loop in nest.loops])
    terms = loads(leaf.value)
    own = [ref for ref in terms if ref.buf is leaf.ref.buf]
    if any(ref != leaf.ref for ref in own) or not all(map(is_whole, nest.loops)):
        return Plain(syms)
    if isinstance(leaf, Store) or own:  # if a cell is written twice, the order shows
        return Plain(_along(syms, [leaf.ref]) if is_injective(leaf.ref.at, syms) else syms)
    named = {s for place in leaf.ref.at for s in place.syms}
    kept = _along(tuple([s for s in syms if s in named]), [leaf.ref])
    reduced = _along(tuple([s for s in syms if s not in named]), terms)
    if not reduced:
        return Plain(kept)
    deep = reduced[-1].extent >= 2 * WAYS and len(terms) <= SMALL and leaf.ref.buf.precision.is_float
    return Plain(kept, reduced, WAYS if deep and leaf.op in REORDERED else 1)


def _along(syms: tuple[Sym, ...], refs: list[Ref]) -> tuple[Sym, ...]:
    """The loops in their order, but for the innermost: the one along which most of `refs` move by one element."""
    if len(syms) < 2:
        return syms
    best = max(reversed(syms), key=lambda s: sum(stride(ref, s) == 1 for ref in refs))
    return (*(s for s in syms if s is not best), best)


def stride(ref: Ref, sym: Sym) -> int:
    """How far, in elements, one step of `sym` moves the cell."""
    return sum(place.coef(sym) * step for place, step in zip(ref.at, ref.buf.strides, strict=True))

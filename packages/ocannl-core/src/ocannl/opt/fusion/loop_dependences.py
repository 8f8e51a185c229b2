"""Groups that share outer loops, and when they may: fusion of loops.

Two nests are made one with the loops of the second that equal some of the first. In the fused nest an iteration of the
shared loops executes what the first nest does in it, and then what the second does. Fusion is legal where no dependence
is turned round (Kennedy and McKinley 1993): where a cell that both touch, and one of them writes, is not touched by the
second nest in an earlier iteration than by the first. `equal_loops` finds those loops along which every such cell is
touched in equal iterations: all dependences have the distance zero along them, and within an iteration the order of the
program is kept. Loops of which an axis of such a cell does not say so stay inside. A sum is no shared loop: it is
complete before its group goes on, in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product

from ocannl.ir.index import Sym
from ocannl.ir.loops import For, Ref
from ocannl.ir.accesses import Access, has_no_loop_carried_dependence, storage
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.fusion.fuse_row_reductions import Carried


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Groups one after the other in each iteration of the loops; their own loops are the others."""

    loops: tuple[For, ...]
    members: tuple[FusionGroup, ...]
    sums: tuple[Carried, ...] = ()  # over the loops

    @property
    def reads(self) -> Iterator[Ref]:
        return (ref for each in self.members for ref in each.reads)

    @property
    def writes(self) -> Iterator[Ref]:
        return (ref for each in self.members for ref in each.writes)

    def are_independent(self, sym: Sym) -> bool:
        """Whether no iteration over the symbol touches what another one writes: updates may meet a cell in several."""
        found = [*(Access(ref, True) for ref in self.writes), *(Access(ref, False) for ref in self.reads)]
        return has_no_loop_carried_dependence(found, sym, (), sums=False)


def are_dependent(first: Row, then: Row) -> bool:
    """Whether one of them writes what the other one touches."""
    pairs = chain(product(first.writes, (*then.writes, *then.reads)), product(first.reads, then.writes))
    return any(storage(one.buf) == storage(other.buf) for one, other in pairs)


def equal_loops(first: Row, then: Row) -> dict[Sym, Sym]:
    """Loops of the first row with those of the second that they are equal to wherever both touch one cell, if one of
    them writes it."""
    found: dict[Sym, Sym] | None = None
    for mine, its in ((first.writes, (*then.reads, *then.writes)), (first.reads, tuple(then.writes))):
        for one in mine:
            for other in its:
                if storage(one.buf) != storage(other.buf):
                    continue
                if one.buf is not other.buf:
                    return {}
                same = {
                    a.only_sym: b.only_sym
                    for a, b in zip(one.indices, other.indices, strict=True)
                    if a.only_sym is not None and b.only_sym is not None
                    and (a.only_sym.lo, a.only_sym.hi) == (b.only_sym.lo, b.only_sym.hi)
                }  # fmt: skip
                found = same if found is None else {a: b for a, b in found.items() if same.get(a) is b}
    return found or {}


def within(row: Row, shared: set[Sym]) -> tuple[FusionGroup, ...]:
    """The members with the loops of their own that are left when these are shared."""
    rest = tuple([loop for loop in row.loops if loop.sym not in shared])
    return tuple([replace(each, loops=(*rest, *each.loops)) for each in row.members])

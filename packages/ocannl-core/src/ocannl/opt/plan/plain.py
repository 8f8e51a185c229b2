"""The schedule that needs no model: sums stay in registers, and the innermost loop walks along memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocannl.ir.index import Sym
from ocannl.ir.loops import Ref
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.opt.group import Group, Sum
from ocannl.opt.nest import loads

WAYS = 4  # an addition takes about four cycles, and one can begin in each
REORDERED = (ADD, MAX, MIN)  # of a product, one part may overflow where another is zero
SMALL = 4  # loads in a term of a sum above which its latency no longer counts


@dataclass(frozen=True, slots=True)
class Reduced:
    """The loops of a sum in this order; `ways` partial sums take turns along the innermost one."""

    order: tuple[Sym, ...]
    ways: int = 1


@dataclass(frozen=True, slots=True)
class Plain:
    """The outer loops in this order, and in them the sums, one after the other."""

    order: tuple[Sym, ...]
    sums: tuple[Reduced, ...] = ()


def plain(group: Group) -> Plain:
    return Plain(along(group.syms, group.writes), tuple([_reduced(each) for each in group.sums]))


def _reduced(each: Sum) -> Reduced:
    terms = loads(each.update.value)
    order = along(each.syms, terms)
    deep = bool(order) and order[-1].extent >= 2 * WAYS and len(terms) <= SMALL and each.acc.precision.is_float
    return Reduced(order, WAYS if deep and each.update.op in REORDERED else 1)


def along(syms: tuple[Sym, ...], refs: Sequence[Ref]) -> tuple[Sym, ...]:
    """The loops in their order, but for the innermost: the one along which most of `refs` move by one element."""
    if len(syms) < 2:
        return syms
    best = max(reversed(syms), key=lambda s: sum(ref.stride(s) == 1 for ref in refs))
    return (*(s for s in syms if s is not best), best)



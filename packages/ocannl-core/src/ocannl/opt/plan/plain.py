"""The schedule that needs no model: sums stay in registers, and the innermost loop walks along memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocannl.ir.index import Sym
from ocannl.ir.loops import Ref
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.opt import machine_model as machine
from ocannl.opt.group import Group, Sum
from ocannl.opt.nest import loads

REORDERED = (ADD, MAX, MIN)  # of a product, one part may overflow where another is zero


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
    deep = bool(order) and order[-1].extent >= 2 * machine.SCALAR_PARTIAL_SUMS and each.acc.precision.is_float
    deep = deep and len(terms) <= machine.MAX_LATENCY_BOUND_LOADS
    return Reduced(order, machine.SCALAR_PARTIAL_SUMS if deep and each.update.op in REORDERED else 1)


def along(syms: tuple[Sym, ...], refs: Sequence[Ref]) -> tuple[Sym, ...]:
    """The loops in their order, but for the innermost: the one along which most of `refs` move by one element."""
    if len(syms) < 2:
        return syms
    best = max(reversed(syms), key=lambda s: sum(ref.stride(s) == 1 for ref in refs))
    return (*(s for s in syms if s is not best), best)



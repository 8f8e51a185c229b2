"""Other plans than that of the model: what a search may choose from."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from itertools import chain

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Buf, Expr, Idx, Load, Update, Var, When
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.group import Group
from ocannl.opt.plan.arrange import arranged
from ocannl.opt.plan.model import tiles
from ocannl.opt.plan.near import may_be_packed, near
from ocannl.opt.plan.plain import Plain, plain
from ocannl.opt.plan.tiled import Tiled, guards, in_tiles, subject_of, tiled


def rivals(
    group: Group, capabilities: Capabilities, shared: bool = False, most: int | None = None
) -> tuple[Plain | Tiled, ...]:
    """Plans of which every result has the same bits, each once: that of the model first, then those that it likes
    best."""
    most = machine.MAX_CANDIDATES if most is None else most
    tile = tiled(group, capabilities, shared)
    if tile is None:
        return (plain(group),)
    rounded, caches = rounding(group, tile), capabilities.caches
    first = arranged(group, tile, caches)
    found = {first: None}
    others = chain(_orders(tile), _tiles(group, tile, capabilities))
    alike = (near(group, each, caches) for each in others if rounding(group, each) == rounded)
    for each in chain(_copies(group, first), alike):
        if len(found) == most:
            break
        found.setdefault(each)
    return tuple(found)


def _copies(group: Group, plan: Tiled) -> Iterator[Tiled]:
    """The same tiles with another operand in panels, or with none."""
    for panels in ((), *((ref,) for ref in may_be_packed(group, plan))):
        yield replace(plan, panels=panels)


def _orders(plan: Tiled) -> Iterator[Tiled]:
    """The same tiles one after the other in another order, and with other loops around all."""
    outer, tiles = [(sym, 0) for sym in plan.outer], [*plan.tiles.items()]
    if len(tiles) > 1:
        yield replace(plan, loops=(*outer, *tiles[::-1]))
    for first in outer[1:]:
        yield replace(plan, loops=(first, *(other for other in plan.loops if other != first)))


def _tiles(group: Group, first: Tiled, capabilities: Capabilities) -> Iterator[Tiled]:
    """Other tiles, with sums in the order that they have."""
    subject = subject_of(group, capabilities)
    assert subject is not None
    some = tiles(subject.shape())
    for tile in some:
        if tile.cycles > machine.MAX_CANDIDATE_COST_RATIO * some[0].cycles:
            return
        made = in_tiles(group, subject, tile)
        yield made if first.vector in first.reduced else replace(made, reduced=first.reduced)


def rounding(group: Group, plan: Tiled) -> Hashable:
    """Equal for plans that round alike. Sums have one order, and the same parts if lanes are parts. A product is
    rounded together with the sum that it is added to unless several cells have it in common, and where a guard is known
    to hold in a whole tile: it counts what tiles are along the loops that decide this."""
    telling = _telling(group)
    parts = (plan.vectors, plan.lanes) if plan.vector in plan.reduced else ()
    told = frozenset((sym, size) for sym, size in plan.tiles.items() if sym in telling)
    return plan.reduced, parts, told, plan.vector if plan.vector in (*telling, *plan.reduced) else None


def _telling(group: Group) -> frozenset[Sym]:
    """Loops around sums that not every term depends on, and those that its guards ask for."""
    accs = {each.acc for each in group.sums}
    updates = [*(each.update for each in group.sums), *(stmt for stmt in group.tail if isinstance(stmt, Update))]
    found: set[Sym] = set()
    for update in updates:
        found |= {sym for cond in guards(update.value) for sym in cond.syms}
        found |= set(group.syms) - _syms(update.value, group.syms, accs)
    return frozenset(found & set(group.syms))


def _syms(value: Expr, syms: tuple[Sym, ...], accs: set[Buf]) -> set[Sym]:
    """Those on which the value depends; on all, if it is made of other results."""
    found: set[Sym] = set()
    for node in walk(value):
        match node:
            case Var():
                found.update(syms)
            case Load(ref):
                found.update(syms if ref.buf in accs else (sym for at in ref.at for sym in at.syms))
            case Idx(index, _):
                found.update(index.syms)
            case When(cond, _, _):
                found.update(cond.syms)
            case _:
                pass
    return found

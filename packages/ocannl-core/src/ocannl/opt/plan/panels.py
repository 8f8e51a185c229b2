"""Which operands tiles read from panels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod

from ocannl.ir.capabilities import Caches
from ocannl.ir.loops import Ref, When
from ocannl.ir.projections import is_injective
from ocannl.ir.touch import storage
from ocannl.ir.walk import walk
from ocannl.opt.group import Group
from ocannl.opt.nest import loads
from ocannl.opt.plan.tiled import Tiled, is_there

LINE_BYTES = 64
FETCH = 1.0  # cycles for a line that comes from beyond the cache of the core
COPY = 1.0  # cycles for a cell of an array that is copied


def with_panels(group: Group, plan: Tiled, caches: Caches) -> Tiled:
    """Operands that come from afar again and again, unless they lie side by side: what the cache of the core holds of
    lines that are a round number of bytes apart is little."""
    return replace(plan, panels=tuple([ref for ref in may_be_packed(group, plan) if _pays(ref, plan, caches)]))


def may_be_packed(group: Group, plan: Tiled) -> Iterator[Ref]:
    """Operands whose cells are all there, whatever the guards say, and stay as they are until the group is done."""
    if not group.sums or plan.vector not in dict(plan.tiles) or not group.cond.is_true:
        return
    (total,) = group.sums
    value, syms = total.update.value, (*group.syms, *total.syms)
    written = {storage(ref.buf) for ref in group.writes}
    guarded = {ref for node in walk(value) if isinstance(node, When) for ref in loads(node)}
    for ref in dict.fromkeys(loads(value)):
        named = {sym for index in ref.at for sym in index.syms}
        mine = tuple([sym for sym in syms if sym in named])
        if ref in guarded or storage(ref.buf) in written or not is_there(ref):
            continue
        if total.cond.is_true and any(sym in mine for sym, _ in plan.tiles) and is_injective(ref.at, mine):
            yield ref


def _pays(ref: Ref, plan: Tiled, caches: Caches) -> bool:
    mine = [n for n, (sym, _) in enumerate(plan.tiles) if ref.stride(sym)]
    if len(mine) != 1 or ref.stride(plan.tiles[mine[0]][0]) != 1:
        return False
    (sym, size), inner, nbytes = plan.tiles[mine[0]], plan.tiles[mine[0] + 1 :], ref.buf.precision.nbytes
    steps = prod(each.extent for each in plan.reduced if ref.stride(each))
    span = size if inner else sym.extent  # that other tiles go through until it is read again
    way_bytes = caches.core_bytes // caches.core_ways
    apart = gcd(way_bytes, *(ref.stride(each) * nbytes for each in plan.reduced))
    if steps * max(apart, span * nbytes) <= caches.core_bytes:
        return False
    again = prod(-(-each.extent // many) for each, many in plan.tiles if each is not sym)
    lines = -(-size * nbytes // LINE_BYTES)
    return FETCH * (again - 1) * lines > COPY * size

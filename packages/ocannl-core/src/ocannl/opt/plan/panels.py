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
COPY = 0.75  # cycles for a cell of an array that is copied


def with_panels(group: Group, plan: Tiled, caches: Caches) -> Tiled:
    """Operands in vectors that come from afar for every tile, unless they lie side by side: what the cache of the core
    holds of lines that are a round number of bytes apart is little."""
    wide = (ref for ref in may_be_packed(group, plan) if ref.stride(plan.vector) == 1)
    return replace(plan, panels=tuple([ref for ref in wide if _pays(ref, plan, caches)]))


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
    size, nbytes = dict(plan.tiles)[plan.vector], ref.buf.precision.nbytes
    reduced = [sym for sym in plan.reduced if ref.stride(sym)]
    row_bytes = size * nbytes
    steps = prod(sym.extent for sym in reduced)
    way_bytes = caches.core_bytes // caches.core_ways
    apart = gcd(way_bytes, *(ref.stride(sym) * nbytes for sym in reduced))
    if steps * max(apart, row_bytes) <= caches.core_bytes:
        return False
    again = prod(-(-sym.extent // many) for sym, many in plan.tiles if not ref.stride(sym))
    lines = steps * row_bytes / LINE_BYTES
    return FETCH * (again - 1) * lines > COPY * steps * size

"""Panels and blocks: what keeps near the core what tiles read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod

from ocannl.ir.capabilities import Caches
from ocannl.ir.loops import Ref, When
from ocannl.ir.projections import is_injective
from ocannl.ir.touch import is_there, storage
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.group import Group
from ocannl.opt.nest import loads
from ocannl.opt.plan.tiled import Tiled


def near(group: Group, plan: Tiled, caches: Caches) -> Tiled:
    """The plan with panels of operands that come from afar again and again unless they lie side by side (what the cache
    of the core holds of lines that are a round number of bytes apart is little), and with blocks where operands of a
    loop over tiles are larger than it. Neither changes the order of summation."""
    panels = tuple([ref for ref in may_be_packed(group, plan) if _pays(ref, plan, caches)])
    return replace(in_blocks(group, plan, caches), panels=panels)


def may_be_packed(group: Group, plan: Tiled) -> Iterator[Ref]:
    """Operands whose cells are all there, whatever the guards say, and stay as they are until the group is done."""
    if not group.sums or plan.vector not in plan.tiles or not group.cond.is_true:
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
        if total.cond.is_true and any(sym in mine for sym in plan.tiles) and is_injective(ref.at, mine):
            yield ref


def may_be_blocked(group: Group, plan: Tiled) -> bool:
    """Whether tiles read something again, and all cells are sums that are written."""
    columns = plan.reduced and plan.vector not in plan.reduced
    return bool(group.sums and columns and len(plan.tiles) > 1 and group.cond.is_true)


def in_blocks(group: Group, plan: Tiled, caches: Caches) -> Tiled:
    """The plan with blocks for which all is near that tiles of the innermost loops share, as many loops as share
    something."""
    if not may_be_blocked(group, plan):
        return plan
    first, *others = plan.reduced
    (total,) = group.sums
    tiles, turns = plan.tiles, plan.turns
    loops = list(turns)
    shared = [ref for ref in dict.fromkeys(loads(total.update.value)) if ref.stride(first)]
    inside = 0
    for sym in reversed(loops[1:]):
        rest = [ref for ref in shared if not ref.stride(sym)]
        if not rest:
            break
        shared, inside = rest, inside + 1

    def share(ref: Ref) -> int:
        cells = prod(tiles[sym] for sym in tiles if ref.stride(sym))
        return cells * prod(sym.extent for sym in others if ref.stride(sym)) * ref.buf.precision.nbytes

    most = caches.core_bytes // machine.BLOCK_CACHE_DIVISOR // max(1, sum(map(share, shared)))
    long = most * prod(sym.extent for sym in others) >= machine.MIN_REDUCTION_PER_BLOCK
    again = prod(turns[sym] for sym in loops[len(loops) - inside :])
    if not inside or not long or again < machine.MIN_OPERAND_REUSE or first.extent < 2 * most:
        return plan
    return replace(plan, block=-(-first.extent // -(-first.extent // most)), inside=inside)


def _pays(ref: Ref, plan: Tiled, caches: Caches) -> bool:
    mine = [sym for sym in plan.tiles if ref.stride(sym)]
    if len(mine) != 1 or ref.stride(mine[0]) != 1:
        return False
    (sym,), last, nbytes = mine, [*plan.tiles][-1], ref.buf.precision.nbytes
    size = plan.tiles[sym]
    steps = prod(each.extent for each in plan.reduced if ref.stride(each))
    span = sym.extent if sym is last else size  # that other tiles go through until it is read again
    way_bytes = caches.core_bytes // caches.core_ways
    apart = gcd(way_bytes, *(ref.stride(each) * nbytes for each in plan.reduced))
    if steps * max(apart, span * nbytes) <= caches.core_bytes:
        return False
    again = prod(turns for each, turns in plan.turns.items() if each is not sym and not ref.stride(each))
    lines = -(-size * nbytes // machine.LINE_BYTES)
    return machine.PRIVATE_MISS_LINE_CYCLES * (again - 1) * lines > machine.COPY_ELEMENT_CYCLES * size

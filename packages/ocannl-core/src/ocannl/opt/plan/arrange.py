"""Orders of loops by what comes from afar: from the cache that cores share, and from memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from ocannl.ir.capabilities import Caches
from ocannl.ir.index import Sym
from ocannl.ir.loops import Update
from ocannl.opt import machine_model as machine
from ocannl.opt.group import Group
from ocannl.opt.nest import loads
from ocannl.opt.plan.near import in_blocks, near
from ocannl.opt.plan.tiled import Tiled

Walk = tuple[tuple[Sym, int], ...]
"""Loops, and how many turns each of them has; one that is there twice has its stretches first."""


def may_be_arranged(group: Group, plan: Tiled) -> bool:
    """Whether any order of the loops will do."""
    return bool(group.sums and plan.tiles and group.cond.is_true)


def arranged(group: Group, plan: Tiled, caches: Caches) -> Tiled:
    """The plan with its loops in order, and with the panels and blocks that are worth it then."""
    return near(group, _in_order(group, plan, caches), caches)


def _in_order(group: Group, plan: Tiled, caches: Caches) -> Tiled:
    """The plan with its loops, and stretches of one of them, in the order in which operands come from afar least often,
    where this matters."""
    if plan.across is not None and not group.sums:
        return _along_lines(group, plan)
    turns = plan.turns
    if not may_be_arranged(group, plan) or not 2 <= len(turns) <= machine.MAX_PERMUTED_LOOPS:
        return plan
    cycles = prod(s.extent for s in (*group.syms, *plan.reduced)) / plan.lanes / 2
    usual = _afar(group, plan, tuple(turns.items()), caches)
    if usual < machine.MIN_LOOP_ORDER_SAVING * cycles:
        return plan
    least, best = usual, plan
    for made, walk in _ways(plan):
        cost = _afar(group, made, walk, caches)
        if cost < least:
            least, best = cost, made
    is_worth = usual - least > machine.MIN_LOOP_ORDER_SAVING * cycles
    return best if is_worth and least < machine.MAX_LOOP_ORDER_COST_RATIO * usual else plan


def _along_lines(group: Group, plan: Tiled) -> Tiled:
    """What turns planes, with that loop innermost along which it writes lines that lie side by side: each row of planes
    goes on where it was, and there are no more of them at a time than one has."""
    turns, sizes = plan.turns, dict(plan.loops)
    many = [sym for sym, count in turns.items() if count > 1]
    if not group.cond.is_true or len(many) < 2:
        return plan
    (write, *_) = group.writes
    inner = min(many, key=lambda sym: abs(write.stride(sym)) * max(1, sizes[sym]))
    outermost = many[inner is many[0]]
    enough = min(machine.MIN_OUTER_TRIPS, turns[many[0]])  # threads may share the outermost loop
    if inner is many[-1] or turns[outermost] < enough:
        return plan
    return replace(plan, loops=(*(each for each in plan.loops if each[0] is not inner), (inner, sizes[inner])))


@dataclass(frozen=True, slots=True)
class _Operand:
    syms: frozenset[Sym]  # of the loops that it depends on
    tile_bytes: int  # that a tile reads
    all_bytes: int

    def within(self, walk: Walk) -> int:
        """Bytes that these loops go through."""
        return min(self.all_bytes, self.tile_bytes * prod(turns for sym, turns in walk if sym in self.syms))


def _operands(group: Group, plan: Tiled) -> list[_Operand]:
    """What terms read, and the sums themselves where they go through memory."""
    (total,) = group.sums
    sizes = {**{sym: sym.extent for sym in plan.reduced}, **dict.fromkeys(plan.outer, 1), **plan.tiles}
    if plan.block:
        sizes[plan.reduced[0]] = plan.block
    found = []
    for ref in dict.fromkeys([*loads(total.update.value), *(group.writes[:1] if plan.block else ())]):
        named = frozenset(sym for index in ref.at for sym in index.syms if sym in sizes)
        tile = prod(sizes[sym] for sym in named) * ref.buf.precision.nbytes
        found.append(_Operand(named, tile, ref.buf.nbytes))
    return found


def _afar(group: Group, plan: Tiled, walk: Walk, caches: Caches) -> float:
    """Cycles, about, for what is not near when it is wanted."""
    plan = in_blocks(group, plan, caches)
    operands = _operands(group, plan)
    if plan.block:
        first, place = plan.reduced[0], len(walk) - plan.inside
        walk = (*walk[:place], (first, -(-first.extent // plan.block)), *walk[place:])
    near_bytes = caches.core_bytes // machine.OPERAND_CACHE_DIVISOR
    into_core, into_all = (_moved(operands, walk, room) for room in (near_bytes, caches.far_bytes))
    cost = machine.LLC_LINE_CYCLES * into_core + machine.DRAM_LINE_CYCLES * into_all
    return (cost + machine.SHORT_RUN_CYCLES * _apart(group, walk, caches)) / machine.LINE_BYTES


def _apart(group: Group, walk: Walk, caches: Caches) -> int:
    """Bytes of large arrays, read when sums are done, that come from memory in pieces as short as the rows of a tile:
    those along which the innermost loop does not go on."""
    (total,) = group.sums
    terms = {ref.buf for ref in loads(total.update.value)}
    added = [stmt.ref for stmt in group.tail if isinstance(stmt, Update)]
    large = [ref for ref in (*group.reads, *added) if ref.buf not in terms and ref.buf.nbytes > caches.core_bytes]
    ends = {ref.buf: ref for ref in large}
    if sum(buf.nbytes for buf in (*terms, *ends)) <= caches.far_bytes:
        return 0
    inner = next((sym for sym, turns in reversed(walk) if turns > 1), None)
    return sum(buf.nbytes for buf, ref in ends.items() if inner is not None and abs(ref.stride(inner)) > 1)


def _moved(operands: Sequence[_Operand], walk: Walk, room: int) -> float:
    """Bytes that come into a cache with so much room: an operand is still there in the next turn of a loop that it does
    not depend on, if all that is read meanwhile fits."""
    if sum(each.within(walk) for each in operands) <= room:
        return 0
    moved = [each.tile_bytes for each in operands]
    for at in range(len(walk) - 1, -1, -1):
        sym, turns = walk[at]
        fits = sum(each.within(walk[at + 1 :]) for each in operands) <= room
        moved = [n if fits and sym not in each.syms else n * turns for n, each in zip(moved, operands, strict=True)]
    return sum(moved)


def _ways(plan: Tiled) -> Iterator[tuple[Tiled, Walk]]:
    """Plans with other orders, of which threads can share the outermost loop as well."""
    turns = plan.turns
    enough = min(machine.MIN_OUTER_TRIPS, next(iter(turns.values())))
    for loops in permutations(plan.loops):
        if not loops[-1][1]:
            continue
        walk = tuple([(sym, turns[sym]) for sym, _ in loops])
        made = replace(plan, loops=loops)
        if walk[0][1] >= enough:
            yield made, walk
        for sym, _ in loops[1:]:
            for many in machine.STRIP_SIZES:
                blocks = -(-turns[sym] // many)
                if enough <= blocks and 1 < blocks < turns[sym]:
                    inner = tuple([(each, many if each is sym else count) for each, count in walk])
                    yield replace(made, stretch=(sym, many)), ((sym, blocks), *inner)

"""Register tiles: so many rows of so many vectors at a time, chosen by what the processor would do for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import inf, prod

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Cast, Expr, Load, Ref, When
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt.cost import cost
from ocannl.opt.group import Group
from ocannl.opt.nest import loads
from ocannl.opt.plan.plain import REORDERED, stride

SHAPES = (
    (6, 4), (8, 3), (12, 2), (14, 1), (4, 4), (6, 2), (4, 2), (8, 1), (4, 1), (2, 4), (1, 8), (1, 4), (1, 2), (1, 1)
)  # fmt: skip
"""Tiles to choose from: rows, and vectors in a row."""
BLOCKS = ((4, 4, 1), (5, 4, 1), (4, 2, 1), (2, 2, 2), (4, 1, 2), (1, 1, 8), (1, 1, 4), (1, 1, 2), (1, 1, 1))
"""Where vectors lie along a sum: rows, columns, and vectors."""
LATENCY = 4  # cycles until a sum can be added to again; two additions begin in each cycle
FOLD = 8  # cycles for the total of a vector
LIGHT = 6  # additions up to which several vectors of a map are worked on together


@dataclass(frozen=True, slots=True)
class Tiled:
    """Loops in this order: `outer`; the tiles, so many iterations of each loop at a time; `reduced`. `vector`, the last
    of the tiles or of `reduced`, has its iterations in vectors of `lanes`, `vectors` of them at a time."""

    outer: tuple[Sym, ...]
    tiles: tuple[tuple[Sym, int], ...]
    reduced: tuple[Sym, ...]
    vector: Sym
    lanes: int
    vectors: int


@dataclass(frozen=True, slots=True)
class _Subject:
    """A group, and what its plan depends on."""

    group: Group
    kept: tuple[Sym, ...]
    reduced: tuple[Sym, ...]
    fixed: set[Sym]  # that no vector may lie along, nor a tile
    terms: tuple[Ref, ...]  # distinct cells that a term reads, or without a sum the whole group
    work: int  # for a term, beside the loads
    after: float  # for a cell, when its sum is known
    lanes: int
    registers: int


def tiled(group: Group, capabilities: Capabilities) -> Tiled | None:
    """The cheapest tile; None where there is nothing to have in lanes."""
    subject = _subject(group, capabilities)
    if subject is None:
        return None
    best, least = None, inf
    for candidate in _candidates(subject):
        price = _cycles(subject, candidate)
        if price < least:
            best, least = candidate, price
    return best


def _subject(group: Group, capabilities: Capabilities) -> _Subject | None:
    kept = group.syms
    if not capabilities.vector_bytes or len(group.sums) > 1:
        return None
    if not all(is_injective(ref.at, kept) for ref in group.writes):
        return None
    total = next(iter(group.sums), None)
    reduced = () if total is None else total.syms
    if any(s.extent == 0 for s in (*kept, *reduced)) or (total is not None and total.update.op not in REORDERED):
        return None
    fixed = set(group.cond.syms)
    for value in group.values:
        for node in walk(value):
            if isinstance(node, When) and loads(node):
                fixed.update(node.cond.syms)
    if total is None:
        terms, work, after = group.reads, sum(_work(stmt.value) for stmt in group.tail), 0.0
    else:
        fixed.update(total.cond.syms)
        terms, work = loads(total.update.value), _work(total.update.value)
        after = sum(_work(stmt.value) + len(loads(stmt.value)) / 2 for stmt in group.tail) / 2
    width = max(_bytes(node) for value in group.values for node in walk(value))
    width = max(width, *(ref.buf.precision.nbytes for ref in group.writes))
    distinct = {(ref.buf, ref.at): ref for ref in terms}
    lanes = capabilities.vector_bytes // max(4, width)
    return _Subject(
        group, kept, reduced, fixed, tuple(distinct.values()), max(1, work), after, lanes, capabilities.vector_registers
    )


def _work(value: Expr) -> int:
    return cost(value).work - max(0, len(loads(value)) - 1)


def _bytes(node: object) -> int:
    return node.precision.nbytes if isinstance(node, Load | Cast) else 1


def _candidates(subject: _Subject) -> Iterator[Tiled]:
    kept, reduced = subject.kept, subject.reduced
    free = [s for s in (*kept, *reduced) if s.extent > 1 and s not in subject.fixed]
    rows_of = [s for s in kept if s in free]
    for vector in free:
        if vector in reduced:
            yield from _sums(subject, vector, rows_of)
            continue
        order = _ordered(reduced, vector, subject)
        for row in (None, *(s for s in rows_of if s is not vector and reduced)):
            for rows, vectors in SHAPES:
                if (rows > 1) is not (row is not None) or (not reduced and vectors > 1 and subject.work > LIGHT):
                    continue
                outer = tuple([s for s in kept if s is not row and s is not vector])
                wide = _vectors(vector.extent, subject.lanes, vectors)
                column = vector, wide * subject.lanes
                row_tile = () if row is None else ((row, _balanced(row.extent, rows)),)
                yield Tiled(outer, (*row_tile, column), order, vector, subject.lanes, wide)


def _sums(subject: _Subject, vector: Sym, free: list[Sym]) -> Iterator[Tiled]:
    """Vectors along a sum."""
    order = (*(s for s in subject.reduced if s is not vector), vector)
    for rows, columns, vectors in BLOCKS:
        wide = _vectors(vector.extent, subject.lanes, vectors)
        for some in permutations(free, (rows > 1) + (columns > 1)):
            tiles = tuple([(s, _balanced(s.extent, n)) for s, n in zip(some, (rows, columns), strict=False)])
            outer = tuple([s for s in subject.kept if s not in some])
            yield Tiled(outer, tiles, order, vector, subject.lanes, wide)


def _balanced(extent: int, most: int) -> int:
    """So many at a time that no tile is much smaller than the others."""
    return -(-extent // -(-extent // most))


def _vectors(extent: int, lanes: int, most: int) -> int:
    return _balanced(-(-extent // lanes), most)


def _ordered(reduced: tuple[Sym, ...], vector: Sym, subject: _Subject) -> tuple[Sym, ...]:
    """Along memory, innermost, whatever is not in the lanes."""
    if len(reduced) < 2:
        return reduced
    free = [ref for ref in subject.terms if not stride(ref, vector)]
    best = max(reversed(reduced), key=lambda s: sum(stride(ref, s) == 1 for ref in free))
    return (*(s for s in reduced if s is not best), best)


def _cycles(subject: _Subject, plan: Tiled) -> float:
    """What the nest takes about; infinite where its tile does not stay in registers."""
    tiles = dict(plan.tiles)
    inner = {s for s in tiles if s is not plan.vector}
    rows = prod(n for s, n in tiles.items() if s is not plan.vector)
    moving = held = 0.0
    for ref in subject.terms:
        many = prod(tiles[s] for s in inner if stride(ref, s))
        step = abs(stride(ref, plan.vector))
        if step:
            moving += many * plan.vectors * _cells(step, plan.lanes)
            held += many * plan.vectors if many < rows else 1
        else:
            moving += many
            held = max(held, 1)
    sums = rows * plan.vectors
    if plan.reduced and sums + held + 1 > subject.registers:
        return inf
    cycles = max(sums * subject.work / 2, moving / 2, LATENCY if plan.reduced else 1)
    vector = plan.vector
    kept = float(prod(s.extent for s in plan.outer))
    for s, n in tiles.items():
        kept *= s.extent / n if s is not vector else 1
    along = _turns(vector.extent, plan)
    if vector in plan.reduced:
        steps = along * prod(s.extent for s in plan.reduced if s is not vector)
        return kept * (steps * cycles + sums * (FOLD + subject.after))
    steps = float(prod(s.extent for s in plan.reduced))
    writes = subject.group.writes
    end = sums * (subject.after + sum(_cells(abs(stride(ref, vector)), plan.lanes) for ref in writes))
    return kept * along * (steps * cycles + end)


def _turns(extent: int, plan: Tiled) -> float:
    """How often the vectors of a tile, counting what is left over as a part of one."""
    return -(-extent // plan.lanes) / plan.vectors


def _cells(step: int, lanes: int) -> float:
    """Cycles, or so, to have a vector of cells so far apart."""
    return 1 if step == 1 else 2 * step if step <= 4 else 2 * lanes

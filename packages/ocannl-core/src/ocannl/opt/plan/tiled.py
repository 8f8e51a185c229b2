"""Register tiles: so many rows of so many vectors at a time, chosen by what the processor would do for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Cast, Load, Ref, Store, When
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt.cost import cost
from ocannl.opt.nest import Nest, is_whole, loads
from ocannl.opt.plan.plain import stride

REORDERED = (ADD, MAX, MIN)  # of a product, one part may overflow where another is zero
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

    @property
    def takes_start(self) -> bool:
        return bool(self.reduced)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A nest, and what its plan depends on."""

    nest: Nest
    kept: tuple[Sym, ...]
    reduced: tuple[Sym, ...]
    terms: tuple[Ref, ...]  # distinct cells that a term reads
    work: int  # for a term, beside the loads
    lanes: int
    registers: int


def tiled(nest: Nest, capabilities: Capabilities) -> Tiled | None:
    """The cheapest tile; None where there is nothing to have in lanes."""
    subject = _subject(nest, capabilities)
    if subject is None:
        return None
    best, least = None, inf
    for candidate in _candidates(subject):
        price = _cycles(subject, candidate)
        if price < least:
            best, least = candidate, price
    return best


def _subject(nest: Nest, capabilities: Capabilities) -> _Subject | None:
    leaf = nest.leaf
    syms = tuple([loop.sym for loop in nest.loops])
    if not capabilities.vector_bytes or not all(map(is_whole, nest.loops)) or any(s.extent == 0 for s in syms):
        return None
    refs = loads(leaf.value)
    own = [ref for ref in refs if ref.buf is leaf.ref.buf]
    if any(ref != leaf.ref for ref in own):
        return None
    if isinstance(leaf, Store) or own:
        if not is_injective(leaf.ref.at, syms):
            return None
        kept, reduced = syms, syms[:0]
    else:
        named = {s for place in leaf.ref.at for s in place.syms}
        kept = tuple([s for s in syms if s in named])
        reduced = tuple([s for s in syms if s not in named])
        if not is_injective(leaf.ref.at, kept) or (reduced and leaf.op not in REORDERED):
            return None
    width = max([leaf.ref.buf.precision.nbytes, *(_bytes(node) for node in walk(leaf.value))])
    lanes = capabilities.vector_bytes // max(4, width)
    distinct = {(ref.buf, ref.at): ref for ref in refs}
    work = max(1, cost(leaf.value).work - max(0, len(refs) - 1))
    return _Subject(nest, kept, reduced, tuple(distinct.values()), work, lanes, capabilities.vector_registers)


def _bytes(node: object) -> int:
    return node.precision.nbytes if isinstance(node, Load | Cast) else 1


def _candidates(subject: _Subject) -> Iterator[Tiled]:
    nest, kept, reduced = subject.nest, subject.kept, subject.reduced
    guarded = set(nest.cond.syms)
    choosing = {s for node in walk(nest.leaf.value) if isinstance(node, When) for s in node.cond.syms}
    for vector in kept:
        if vector.extent < 2 or vector in guarded | choosing:
            continue
        others = tuple([s for s in kept if s is not vector])
        order = _ordered(reduced, vector, subject)
        for row in (None, *(s for s in others if s not in guarded and s.extent > 1 and reduced)):
            for rows, vectors in SHAPES:
                if (rows > 1) is not (row is not None) or (not reduced and vectors > 1 and subject.work > LIGHT):
                    continue
                outer = tuple([s for s in others if s is not row])
                wide = _vectors(vector.extent, subject.lanes, vectors)
                column = vector, wide * subject.lanes
                row_tile = () if row is None else ((row, _balanced(row.extent, rows)),)
                yield Tiled(outer, (*row_tile, column), order, vector, subject.lanes, wide)
    for vector in reduced:
        if vector.extent < 2 or vector in guarded | choosing:
            continue
        order = (*(s for s in reduced if s is not vector), vector)
        free = [s for s in kept if s.extent > 1 and s not in guarded]
        for rows, columns, vectors in BLOCKS:
            if (rows > 1) + (columns > 1) > len(free):
                continue
            wide = _vectors(vector.extent, subject.lanes, vectors)
            for some in _choices(free, (rows > 1) + (columns > 1)):
                tiles = tuple([(s, _balanced(s.extent, n)) for s, n in zip(some, (rows, columns), strict=False)])
                outer = tuple([s for s in kept if s not in some])
                yield Tiled(outer, tiles, order, vector, subject.lanes, wide)


def _choices(syms: Sequence[Sym], many: int) -> Iterator[tuple[Sym, ...]]:
    if many == 0:
        yield ()
    elif many == 1:
        yield from ((s,) for s in syms)
    else:
        yield from ((a, b) for a in syms for b in syms if a is not b)


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
        return kept * (steps * cycles + sums * FOLD)
    steps = float(prod(s.extent for s in plan.reduced))
    end = sums * _cells(abs(stride(subject.nest.leaf.ref, vector)), plan.lanes)
    return kept * along * (steps * cycles + end)


def _turns(extent: int, plan: Tiled) -> float:
    """How often the vectors of a tile, counting what is left over as a part of one."""
    return -(-extent // plan.lanes) / plan.vectors


def _cells(step: int, lanes: int) -> float:
    """Cycles, or so, to have a vector of cells so far apart."""
    return 1 if step == 1 else 2 * step if step <= 4 else 2 * lanes

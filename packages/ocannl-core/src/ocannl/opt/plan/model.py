"""What a group takes in register tiles, in cycles or so, and the tile that takes least: arithmetic on strides alone.

The processor that is meant begins two operations on vectors and two loads in each cycle. Only differences matter: the
figures choose between tiles and between orders of axes. They are the same on every machine with such vectors, since the
order of summation follows from them; what may depend on its caches is in `near`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count, permutations
from math import inf, prod
from operator import mul
from typing import NamedTuple

from ocannl.opt import machine_model as machine

ONCE = [(1, 1)]  # a loop of one iteration, in parts


Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A group in numbers: extents of its loops, the kept ones and then the reduced ones of its sum, and strides of what
    it reads and writes along each of them."""

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    rows: tuple[bool, ...]  # whether a tile may have rows along a kept loop
    wide: tuple[bool, ...]  # and vectors along any
    terms: tuple[Strides, ...]  # distinct cells that a term of the sum reads
    others: tuple[Strides, ...]  # that are read once for each cell
    writes: tuple[Strides, ...]
    work: int  # additions in a term, beside the loads
    after: int  # and for each cell
    lanes: int
    registers: int


@dataclass(frozen=True, slots=True)
class Tile:
    """So many iterations of each of `tiles` at a time, and `vectors` along `vector`; loops are numbers."""

    cycles: float
    vector: int
    vectors: int
    tiles: tuple[tuple[int, int], ...]  # without the vector
    across: int | None = None  # the one of them whose cells lie side by side where those of the vector do not


def best(shape: Shape) -> Tile | None:
    """The cheapest tile; None where there is nothing to have in lanes."""
    return _families_of(shape).within(inf)[0]


def cycles(shape: Shape, limit: float = inf) -> float:
    """Of the cheapest tile, nothing where there is none; if they are not below the limit, some number that is not."""
    return _families_of(shape).within(limit)[1]


class _Families:
    """Those of a shape, and what is known of them, as far as somebody had to look. Several threads may look at a time:
    what they know is replaced as a whole."""

    __slots__ = ("_all", "_known", "_shape")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        empty = not shape.lanes or 0 in shape.kept or 0 in shape.reduced
        self._all = [] if empty else sorted(_families(shape))
        self._known: tuple[int, Tile | None, int] = 0, None, 0  # how many are; the best tile, and where its family is

    def within(self, limit: float) -> tuple[Tile | None, float]:
        """The cheapest tile below the limit, if there is one, and cycles below which there is none."""
        seen, found, first = self._known
        while seen < len(self._all) and self._all[seen].least < limit:
            family = self._all[seen]
            if found is not None and family.least > found.cycles:
                seen = len(self._all)
                break
            seen += 1
            tile = min(family.tiles(self._shape), key=lambda tile: tile.cycles, default=None)
            if tile is not None and (found is None or (tile.cycles, family.place) < (found.cycles, first)):
                found, first = tile, family.place
        self._known = seen, found, first
        bounds = [found.cycles] if found is not None else []
        return found, min([*bounds, *(family.least for family in self._all[seen : seen + 1])], default=0.0)


_families_of = lru_cache(maxsize=1 << 14)(_Families)


def tiles(shape: Shape) -> list[Tile]:
    """All there are, the cheapest first."""
    return sorted((tile for family in _families(shape) for tile in family.tiles(shape)), key=lambda tile: tile.cycles)


def alike(shape: Shape, tile: Tile) -> Iterator[Tile]:
    """Tiles along the same loops, if lanes are cells."""
    if tile.vector < len(shape.kept):
        yield from _columns(shape, tile.vector, tile.tiles[0][0] if tile.tiles else None)


class _Family(NamedTuple):
    """Tiles along the same loops, all of which take so many cycles at least; the order of families breaks ties."""

    least: float
    place: int
    vector: int
    row: int | None = None

    def tiles(self, shape: Shape) -> Iterator[Tile]:
        along = _columns if self.vector < len(shape.kept) else _sums
        return along(shape, self.vector, self.row)


def _families(shape: Shape) -> Iterator[_Family]:
    extents = shape.kept + shape.reduced
    rows, places = _rows(shape), count()
    cells, steps = prod(shape.kept) * machine.BOUND_SLACK, prod(shape.reduced)
    for vector in (n for n, extent in enumerate(extents) if extent > 1 and shape.wide[n]):
        turns = -(-extents[vector] // shape.lanes) / extents[vector]
        if vector >= len(shape.kept):
            latency = machine.ADD_LATENCY_CYCLES + machine.LOOP_OVERHEAD_CYCLES
            step = max(shape.work / 2, latency / machine.MAX_PARTIAL_SUMS)
            yield _Family(cells * (steps * turns * step + _end(shape)), next(places), vector)
            continue
        for row in (None, *(n for n in rows if n != vector)):
            yield _Family(cells * turns * _least(shape, vector, row), next(places), vector, row)


def _rows(shape: Shape) -> list[int]:
    """Loops that rows may lie along."""
    return [n for n, extent in enumerate(shape.kept) if extent > 1 and shape.rows[n]]


def _least(shape: Shape, vector: int, row: int | None) -> float:
    """Cycles of a vector of cells."""
    high, area = 1, machine.MAX_VECTORS_ONE_ROW
    if row is not None:
        high, area = max(machine.MAX_TILE_ROWS, shape.lanes), max(machine.MAX_TILE_AREA, shape.lanes)

    def moved(ref: Strides) -> float:
        return 1 if row is not None and ref[row] == 1 else _cells(ref[vector], shape.lanes)

    loads = sum([moved(ref) / (1 if row is None or ref[row] else high) for ref in shape.terms if ref[vector]])
    once = shape.after / 2 + sum(map(moved, shape.writes)) + sum(map(moved, shape.others)) / 2
    wait, start = (machine.ADD_LATENCY_CYCLES, machine.TILE_STARTUP_CYCLES) if shape.reduced else (0, 0)
    step = max(shape.work / 2, loads / 2, wait / area) + machine.LOOP_OVERHEAD_CYCLES / area
    return prod(shape.reduced) * step + once + start / area


def _columns(shape: Shape, vector: int, row: int | None) -> Iterator[Tile]:
    """Each lane is a cell."""
    lanes, extent = shape.lanes, shape.kept[vector]
    turns = -(-extent // lanes)
    cells = prod(shape.kept) / extent
    at_end = shape.others + shape.writes if shape.reduced else shape.terms + shape.writes
    length = shape.kept[row] if row is not None else 1
    across = row if row is not None and any(abs(ref[vector]) > 1 and ref[row] == 1 for ref in at_end) else None
    if row is not None and across is None and not shape.reduced:
        return
    held = sum(ref[vector] != 0 and (row is None or ref[row] == 0) for ref in shape.terms)
    cycles = _column(shape, vector, row)
    tried: set[tuple[int, int]] = set()
    is_light = shape.work <= machine.MAX_UNROLLED_OPS
    for high, wide in (*machine.TILE_SHAPES, (lanes, 1)):
        if (high > 1) is not (row is not None) or (not shape.reduced and wide > 1 and not is_light):
            continue
        tile, vectors = _balanced(length, high), _balanced(turns, wide)
        if (tile, vectors) in tried:
            continue
        tried.add((tile, vectors))
        if (shape.reduced or row is not None) and tile * vectors + held * vectors + 1 > shape.registers:
            continue
        total = 0.0
        for t, many in _parts(length, tile):
            total += many * sum([some * cycles(t, v) for v, some in _parts(turns, vectors)])
        tiles = () if row is None else ((row, tile),)
        yield Tile(cells / length * total, vector, vectors, tiles, across)


def _column(shape: Shape, vector: int, row: int | None) -> Callable[[int, int], float]:
    """Cycles of a tile of so many rows and vectors in which each lane is a cell."""
    lanes, steps = shape.lanes, prod(shape.reduced)
    terms, writes, others = (
        [_Access.of(ref, vector, row, lanes) for ref in refs] for refs in (shape.terms, shape.writes, shape.others)
    )
    load, store, read = _Moved.of(terms, not shape.reduced), _Moved.of(writes), _Moved.of(others)
    walks = [
        [(n, abs(step)) for n, step in zip(shape.reduced, ref[len(shape.kept) :], strict=True) if step]
        for ref in shape.terms
    ]
    again = [prod([n for n, _ in walk]) for walk in walks]  # how often other lines come in a tile
    line, l1, fill, overhead = (
        machine.ELEMENTS_PER_LINE, machine.L1_ELEMENTS, machine.LINE_FILL_LOADS, machine.LOOP_OVERHEAD_CYCLES
    )  # fmt: skip
    often = [n / steps * min([1, *(step / line for _, step in walk)]) for n, walk in zip(again, walks, strict=True)]
    work, after = shape.work / 2, shape.after / 2
    least = start = 0  # tiles without sums overlap
    if shape.reduced:
        least, start = machine.ADD_LATENCY_CYCLES, machine.TILE_STARTUP_CYCLES
    dense = [(_share(each.along) * lanes, _share(each.down)) for each in terms]
    near = l1 / line / sum(again) if shape.reduced and again else inf  # cells of a tile whose lines surely stay near

    plain = after + store.of_cell(None) + read.of_cell(None) / 2

    @cache
    def cycles(rows: int, vectors: int) -> float:
        area = rows * vectors
        turned = _turned(rows, lanes) if rows > 1 else None
        loads = load.of_tile(rows, vectors, turned)
        if area * lanes > near:
            lines = [max(1, along * vectors) * max(1, down * rows) for along, down in dense]
            if sum(map(mul, lines, again)) * line > l1:
                loads += fill * sum(map(mul, lines, often))
        step = max(area * work, loads / 2, least) + overhead
        once = plain if turned is None else after + store.of_cell(turned) + read.of_cell(turned) / 2
        return steps * step + area * once + start

    return cycles


@dataclass(frozen=True, slots=True)
class _Access:
    """Cells that a tile reads or writes: how far apart they are along vectors and along rows."""

    along: int
    down: int
    vector: float  # loads for a vector

    @staticmethod
    def of(ref: Strides, vector: int, row: int | None, lanes: int) -> _Access:
        return _Access(abs(ref[vector]), ref[row] if row is not None else 0, _cells(ref[vector], lanes))

@dataclass(slots=True)
class _Moved:
    """Loads of several accesses, by where in a tile they differ: between rows, between vectors, both, or not at all."""

    same: float = 0
    rows: float = 0
    vectors: float = 0
    both: float = 0
    apart: float = 0  # of those whose vectors may be turned, because cells of rows lie side by side
    turning: int = 0  # the number of these

    @staticmethod
    def of(accesses: Iterable[_Access], turning: bool = True) -> _Moved:
        found = _Moved()
        for each in accesses:
            if turning and each.along > 1 and each.down == 1:
                found.apart += each.vector
                found.turning += 1
            elif each.along and each.down:
                found.both += each.vector
            elif each.along:
                found.vectors += each.vector
            elif each.down:
                found.rows += each.vector
            else:
                found.same += each.vector
        return found

    def of_tile(self, rows: int, vectors: int, turned: float | None) -> float:
        """`turned` is what a vector takes whose cells are turned."""
        side = self.apart if turned is None else self.turning * turned
        return self.same + self.rows * rows + self.vectors * vectors + (self.both + side) * rows * vectors

    def of_cell(self, turned: float | None) -> float:
        """If each is there once for every row and vector."""
        return self.of_tile(1, 1, turned)


@lru_cache(maxsize=1 << 12)
def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """Sizes of tiles along a loop, and how many there are."""
    whole, left = divmod(extent, size)
    return [part for part in ((size, whole), (left, 1 if left else 0)) if part[1]]


@dataclass(frozen=True, slots=True)
class _Reads:
    """How much a tile of two loops reads in a step, by the loops along which that moves."""

    neither: float
    first: float
    second: float
    both: float

    @staticmethod
    def of(terms: Iterable[tuple[Strides, float]], loops: tuple[int, ...]) -> _Reads:
        """Of terms and what each takes; there may be fewer loops."""
        found = [0.0] * 4
        for ref, price in terms:
            found[sum(1 << place for place, n in enumerate(loops) if ref[n])] += price
        return _Reads(*found)

    def of_tile(self, first: int, second: int) -> float:
        return self.neither + self.first * first + self.second * second + self.both * first * second

    def shared(self, first: int, second: int) -> float:
        """What more than one cell of the tile makes use of."""
        area = first * second
        amounts = (self.neither, 1), (self.first, first), (self.second, second)
        return sum(amount * many for amount, many in amounts if many < area)


def _sums(shape: Shape, vector: int, row: int | None = None) -> Iterator[Tile]:
    """Each lane is a part of a sum."""
    rows = _rows(shape)
    extents, lanes = shape.kept + shape.reduced, shape.lanes
    turns = -(-extents[vector] // lanes)
    cells, steps = prod(shape.kept), prod(shape.reduced) / extents[vector]
    end = _end(shape)
    wide = [(ref, 1.0) for ref in shape.terms if ref[vector]]
    priced = [(ref, _cells(ref[vector], lanes)) for ref, _ in wide]
    single = [(ref, 1.0) for ref in shape.terms if not ref[vector]]

    work = shape.work / 2
    tried: set[tuple[tuple[int, ...], tuple[int, ...], int]] = set()

    @cache
    def reads(some: tuple[int, ...]) -> tuple[_Reads, _Reads, _Reads]:
        return _Reads.of(wide, some), _Reads.of(priced, some), _Reads.of(single, some)

    for high, low, across in machine.REDUCTION_TILE_SHAPES:
        vectors = _balanced(turns, across)
        for some in permutations(rows, (high > 1) + (low > 1)):
            sizes = tuple([_balanced(extents[n], most) for n, most in zip(some, (high, low), strict=False)])
            if (some, sizes, vectors) in tried:
                continue
            tried.add((some, sizes, vectors))
            streams, loads, cast = reads(some)
            first, second, *_ = (*sizes, 1, 1)
            if (first * second + streams.shared(first, second)) * vectors + 1 > shape.registers:
                continue
            total = 0.0
            firsts, seconds, *_ = (*[_parts(extents[n], size) for n, size in zip(some, sizes, strict=True)], ONCE, ONCE)
            for p, many in firsts:
                for q, often in seconds:
                    area, rows_read = p * q, machine.ROW_SWITCH_CYCLES * streams.of_tile(p, q)
                    loaded = loads.of_tile(p, q) * vectors + cast.of_tile(p, q)
                    if streams.of_tile(p, q) * steps * extents[vector] > machine.L1_ELEMENTS:
                        loaded += machine.LINE_FILL_LOADS * streams.of_tile(p, q) * vectors
                    step = max(area * vectors * work, loaded / 2, machine.ADD_LATENCY_CYCLES)
                    step += machine.LOOP_OVERHEAD_CYCLES
                    tile = steps * (turns / vectors * step + rows_read) + area * (end + 2 * (vectors - 1))
                    tile += machine.TILE_STARTUP_CYCLES
                    total += many * often * tile
            cycles = total * cells / prod([extents[n] for n in some])
            yield Tile(cycles, vector, vectors, tuple(zip(some, sizes, strict=True)))


def _end(shape: Shape) -> float:
    """Cycles for a cell whose sum is done."""
    return machine.HORIZONTAL_SUM_CYCLES + shape.after / 2 + len(shape.others) / 2 + len(shape.writes)


def _balanced(extent: int, most: int) -> int:
    """So many at a time that no tile is much smaller than the others."""
    return -(-extent // -(-extent // most))


def _cells(step: int, lanes: int) -> float:
    """Loads, or as much as so many, for a vector of cells so far apart."""
    step = abs(step)
    return 1 if step <= 1 else 2 * step if step <= 4 else 2 * lanes


def _share(step: int) -> float:
    """Of a line, that lies between two cells."""
    return min(abs(step), machine.ELEMENTS_PER_LINE) / machine.ELEMENTS_PER_LINE


@cache
def _turned(rows: int, lanes: int) -> float:
    """The same where the cells of so many rows, which are vectors, lie side by side instead."""
    stages = (rows - 1).bit_length()
    shuffles = (stages << stages) + (lanes if 1 << stages < lanes else 0)
    return (shuffles / 2 + lanes * rows.bit_count()) / rows

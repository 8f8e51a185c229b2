"""Cost model: estimated cycles of each register tile of a nest, and the cheapest one, from extents and strides alone.

The modeled processor starts two vector operations and two loads per cycle. Estimates are only compared with each other:
they select among tiles and among memory layouts. They are equal on all machines with the same vectors, because the
order of summation follows from them; decisions that depend on cache sizes are made in `packing` and `loop_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from math import gcd, inf, prod
from operator import mul
from typing import NamedTuple

from ocannl.opt import machine_model as machine
from ocannl.opt.schedule.plan.nest_shape import (
    NestShape,
    Strides,
    Tile,
    balanced_size,
    epilogue_cycles,
    is_gathered,
    loads_per_vector,
    partition,
    row_loops,
)
from ocannl.opt.schedule.plan.partial_sum_tiles import tiles_of_partial_sums


def best_tile(shape: NestShape) -> Tile | None:
    """Returns the cheapest tile; None if no loop can be vectorized."""
    return _tile_classes_of(shape).best_below(inf)[0]


def min_cycles(shape: NestShape, limit: float = inf) -> float:
    """Returns the cycles of the cheapest tile, 0 if there is none. Exact below `limit`; otherwise some lower bound that
    is at least `limit`."""
    return _tile_classes_of(shape).best_below(limit)[1]


class _TileClasses:
    """Branch and bound (Land and Doig 1960) over the tile classes of a shape, in order of their lower bounds.

    Keeps the progress of earlier searches. Threads may search concurrently: the state is replaced as a whole.
    """

    __slots__ = ("_classes", "_shape", "_state")

    def __init__(self, shape: NestShape) -> None:
        self._shape = shape
        is_empty = not shape.lanes or 0 in shape.parallel_extents or 0 in shape.reduction_extents
        self._classes = [] if is_empty else sorted(_tile_classes(shape))
        self._state: tuple[int, Tile | None, int] = 0, None, 0  # classes searched; best tile and the rank of its class

    def best_below(self, limit: float) -> tuple[Tile | None, float]:
        """Returns the best tile cheaper than `limit`, if any, and a lower bound on all tiles."""
        searched, best, best_rank = self._state
        while searched < len(self._classes) and self._classes[searched].lower_bound < limit:
            tile_class = self._classes[searched]
            if best is not None and tile_class.lower_bound > best.cycles:
                searched = len(self._classes)
                break
            searched += 1
            tile = min(tile_class.tiles(self._shape), key=lambda tile: tile.cycles, default=None)
            if tile is not None and (best is None or (tile.cycles, tile_class.rank) < (best.cycles, best_rank)):
                best, best_rank = tile, tile_class.rank
        self._state = searched, best, best_rank
        bounds = [best.cycles] if best is not None else []
        remaining = (tile_class.lower_bound for tile_class in self._classes[searched : searched + 1])
        return best, min([*bounds, *remaining], default=0.0)


_tile_classes_of = lru_cache(maxsize=1 << 14)(_TileClasses)


def tiles_by_cost(shape: NestShape) -> list[Tile]:
    """Returns all tiles, the cheapest first."""
    tiles = (tile for tile_class in _tile_classes(shape) for tile in tile_class.tiles(shape))
    return sorted(tiles, key=lambda tile: tile.cycles)


def tiles_of_same_class(shape: NestShape, tile: Tile) -> Iterator[Tile]:
    """Yields the tiles along the same loops as `tile`, if it is vectorized over outputs."""
    if tile.vector < len(shape.parallel_extents):
        yield from _vector_over_outputs(shape, tile.vector, tile.sizes[0][0] if tile.sizes else None)


class _TileClass(NamedTuple):
    """The tiles along the same loops, with a lower bound on their cycles; `rank` breaks ties."""

    lower_bound: float
    rank: int
    vector: int
    row: int | None = None

    def tiles(self, shape: NestShape) -> Iterator[Tile]:
        over_outputs = self.vector < len(shape.parallel_extents)
        return (_vector_over_outputs if over_outputs else tiles_of_partial_sums)(shape, self.vector, self.row)


def _tile_classes(shape: NestShape) -> Iterator[_TileClass]:
    extents = shape.parallel_extents + shape.reduction_extents
    rows, ranks = row_loops(shape), count()
    cells, terms = prod(shape.parallel_extents) * machine.BOUND_SLACK, prod(shape.reduction_extents)
    for vector in (n for n, extent in enumerate(extents) if extent > 1 and shape.vectorizable[n]):
        vectors_per_iteration = -(-extents[vector] // shape.lanes) / extents[vector]
        if vector >= len(shape.parallel_extents):
            latency = machine.ADD_LATENCY_CYCLES + machine.LOOP_OVERHEAD_CYCLES
            step = max(shape.ops_per_term / 2, latency / machine.MAX_PARTIAL_SUMS)
            cell_cycles = terms * vectors_per_iteration * step + epilogue_cycles(shape)
            yield _TileClass(cells * cell_cycles, next(ranks), vector)
            continue
        for row in (None, *(n for n in rows if n != vector)):
            bound = cells * vectors_per_iteration * _vector_lower_bound(shape, vector, row)
            yield _TileClass(bound, next(ranks), vector, row)


def _vector_lower_bound(shape: NestShape, vector: int, row: int | None) -> float:
    """Returns a lower bound on the cycles for one vector of output cells."""
    max_rows, area = 1, machine.MAX_VECTORS_SINGLE_ROW
    if row is not None:
        max_rows, area = max(machine.MAX_TILE_ROWS, shape.lanes), max(machine.MAX_TILE_AREA, shape.lanes)

    def load_cost(ref: Strides) -> float:
        return 1 if row is not None and ref[row] == 1 else loads_per_vector(ref[vector], shape.lanes)

    reads = [ref for ref in shape.reduction_reads if ref[vector]]
    loads = sum([load_cost(ref) / (1 if row is None or ref[row] else max_rows) for ref in reads])
    stores, final_loads = sum(map(load_cost, shape.writes)), sum(map(load_cost, shape.epilogue_reads))
    epilogue = shape.ops_per_cell / 2 + stores + final_loads / 2
    latency, startup = (machine.ADD_LATENCY_CYCLES, machine.TILE_STARTUP_CYCLES) if shape.reduction_extents else (0, 0)
    step = max(shape.ops_per_term / 2, loads / 2, latency / area) + machine.LOOP_OVERHEAD_CYCLES / area
    return prod(shape.reduction_extents) * step + epilogue + startup / area


def _vector_over_outputs(shape: NestShape, vector: int, row: int | None) -> Iterator[Tile]:
    """Yields the tiles whose lanes are output cells."""
    lanes, extent = shape.lanes, shape.parallel_extents[vector]
    total_vectors = -(-extent // lanes)
    cells = prod(shape.parallel_extents) / extent
    final_refs = (shape.epilogue_reads if shape.reduction_extents else shape.reduction_reads) + shape.writes
    total_rows = shape.parallel_extents[row] if row is not None else 1
    is_transposed = row is not None and any(abs(ref[vector]) > 1 and ref[row] == 1 for ref in final_refs)
    transposed_loop = row if is_transposed else None
    if row is not None and transposed_loop is None and not shape.reduction_extents:
        return
    reused = sum(ref[vector] != 0 and (row is None or ref[row] == 0) for ref in shape.reduction_reads)
    tile_cycles = _output_tile_cycles(shape, vector, row)
    visited: set[tuple[int, int]] = set()
    is_cheap = shape.ops_per_term <= machine.MAX_UNROLLED_OPS
    for max_rows, max_vectors in (*machine.TILE_SHAPES, (lanes, 1)):
        if (max_rows > 1) is not (row is not None):
            continue
        if not shape.reduction_extents and max_vectors > 1 and not is_cheap:
            continue
        rows, vectors = balanced_size(total_rows, max_rows), balanced_size(total_vectors, max_vectors)
        if (rows, vectors) in visited:
            continue
        visited.add((rows, vectors))
        if (shape.reduction_extents or row is not None) and rows * vectors + reused * vectors + 1 > shape.registers:
            continue
        total = 0.0
        for r, row_tiles in partition(total_rows, rows):
            total += row_tiles * sum([tiles * tile_cycles(r, v) for v, tiles in partition(total_vectors, vectors)])
        sizes = () if row is None else ((row, rows),)
        yield Tile(cells / total_rows * total, vector, vectors, sizes, transposed_loop)


def _output_tile_cycles(shape: NestShape, vector: int, row: int | None) -> Callable[[int, int], float]:
    """Returns a function from the rows and vectors of a tile to its cycles, for tiles whose lanes are output cells."""
    lanes, terms = shape.lanes, prod(shape.reduction_extents)
    reads, writes, epilogue_reads = (
        [_TileAccess.of(ref, vector, row, lanes) for ref in refs]
        for refs in (shape.reduction_reads, shape.writes, shape.epilogue_reads)
    )
    is_map = not shape.reduction_extents
    term_loads = _LoadCounts.of(reads, is_map)
    stores, epilogue_loads = _LoadCounts.of(writes), _LoadCounts.of(epilogue_reads)
    walks = [
        [
            (n, abs(stride))
            for n, stride in zip(shape.reduction_extents, ref[len(shape.parallel_extents) :], strict=True) if stride
        ]
        for ref in shape.reduction_reads
    ]  # fmt: skip
    refetches = [prod([n for n, _ in walk]) for walk in walks]  # how often each operand changes its lines within a tile
    line, l1, fill, overhead = (
        machine.ELEMENTS_PER_LINE, machine.L1_ELEMENTS, machine.LINE_FILL_LOADS, machine.LOOP_OVERHEAD_CYCLES
    )  # fmt: skip
    fills_per_term = [
        n / terms * min([1, *(stride / line for _, stride in walk)]) for n, walk in zip(refetches, walks, strict=True)
    ]
    ops_per_term, ops_per_cell = shape.ops_per_term / 2, shape.ops_per_cell / 2
    latency = startup = 0  # tiles without reductions overlap
    if shape.reduction_extents:
        latency, startup = machine.ADD_LATENCY_CYCLES, machine.TILE_STARTUP_CYCLES
    gathers = [read for read in reads if is_gathered(read.vector_stride) and not (is_map and read.row_stride == 1)]
    line_shares = [(_line_fraction(read.vector_stride) * lanes, _line_fraction(read.row_stride)) for read in reads]
    row_strides = [read.row_stride for read in reads if not read.vector_stride]
    has_refetches = shape.reduction_extents and refetches
    l1_cells = l1 / line / sum(refetches) if has_refetches else inf  # tiles of at most so many cells stay in L1

    epilogue = ops_per_cell + stores.per_vector(None) + epilogue_loads.per_vector(None) / 2

    @cache
    def cycles(rows: int, vectors: int) -> float:
        area = rows * vectors
        transpose = _transpose_cost(rows, lanes) if rows > 1 else None
        loads = term_loads.per_tile(rows, vectors, transpose)
        if area * lanes > l1_cells:
            lines = [max(1, along * vectors) * max(1, down * rows) for along, down in line_shares]
            if sum(map(mul, lines, refetches)) * line > l1:
                loads += fill * sum(map(mul, lines, fills_per_term))
        loads += fill * rows * sum([_conflict(stride * shape.read_bytes, rows) for stride in row_strides])
        insertions = lanes * vectors * sum([rows if read.row_stride else 1 for read in gathers])
        step = max(area * ops_per_term + insertions / 2, loads / 2, latency) + overhead
        final = (
            epilogue if transpose is None
            else ops_per_cell + stores.per_vector(transpose) + epilogue_loads.per_vector(transpose) / 2
        )  # fmt: skip
        return terms * step + area * final + startup

    return cycles


@dataclass(frozen=True, slots=True)
class _TileAccess:
    """An access of a tile: its strides along vectors and along rows."""

    vector_stride: int
    row_stride: int
    loads: float  # per vector

    @staticmethod
    def of(ref: Strides, vector: int, row: int | None, lanes: int) -> _TileAccess:
        row_stride = ref[row] if row is not None else 0
        return _TileAccess(abs(ref[vector]), row_stride, loads_per_vector(ref[vector], lanes))


@dataclass(slots=True)
class _LoadCounts:
    """Loads of several accesses, classified by the tile loops along which they vary."""

    invariant: float = 0
    rows: float = 0
    vectors: float = 0
    both: float = 0
    strided: float = 0  # accesses that can be transposed in registers, because rows have unit stride
    transposable: int = 0  # the number of these accesses

    @staticmethod
    def of(accesses: Iterable[_TileAccess], can_transpose: bool = True) -> _LoadCounts:
        counts = _LoadCounts()
        for access in accesses:
            if can_transpose and access.vector_stride > 1 and access.row_stride == 1:
                counts.strided += access.loads
                counts.transposable += 1
            elif access.vector_stride and access.row_stride:
                counts.both += access.loads
            elif access.vector_stride:
                counts.vectors += access.loads
            elif access.row_stride:
                counts.rows += access.loads
            else:
                counts.invariant += access.loads
        return counts

    def per_tile(self, rows: int, vectors: int, transpose: float | None) -> float:
        """Returns the loads of a tile; `transpose` is the cost per vector of a register transpose, if there is one."""
        strided = self.strided if transpose is None else self.transposable * transpose
        return self.invariant + self.rows * rows + self.vectors * vectors + (self.both + strided) * rows * vectors

    def per_vector(self, transpose: float | None) -> float:
        """Returns the loads of a single vector, without reuse."""
        return self.per_tile(1, 1, transpose)


def _conflict(distance_bytes: int, rows: int) -> bool:
    """Whether rows at this distance have more lines in a set of the first-level cache than the set has ways, so that
    they evict each other between terms."""
    period = machine.CONFLICT_STRIDE_BYTES
    return bool(distance_bytes) and rows > machine.L1_ASSOCIATIVITY * (period // gcd(distance_bytes, period))


def _line_fraction(stride: int) -> float:
    """Returns the distance between adjacent cells as a fraction of a cache line, at most 1."""
    return min(abs(stride), machine.ELEMENTS_PER_LINE) / machine.ELEMENTS_PER_LINE


@cache
def _transpose_cost(rows: int, lanes: int) -> float:
    """Returns the cost per vector, in loads, of a register transpose with this many rows of unit stride."""
    stages = (rows - 1).bit_length()
    shuffles = (stages << stages) + (lanes if 1 << stages < lanes else 0)
    return (shuffles / 2 + lanes * rows.bit_count()) / rows

"""Register tiles whose lanes are partial sums of a reduction, and their estimated cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import prod

from ocannl.opt import machine_model as machine
from ocannl.opt.schedule.plan.nest_shape import (
    SINGLE_ITERATION,
    NestShape,
    Strides,
    Tile,
    balanced_size,
    epilogue_cycles,
    loads_per_vector,
    partition,
    row_loops,
)


def tiles_of_partial_sums(shape: NestShape, vector: int, row: int | None = None) -> Iterator[Tile]:
    """Yields the tiles whose lanes are partial sums."""
    rows = row_loops(shape)
    extents, lanes = shape.parallel_extents + shape.reduction_extents, shape.lanes
    total_vectors = -(-extents[vector] // lanes)
    cells, outer_terms = prod(shape.parallel_extents), prod(shape.reduction_extents) / extents[vector]
    epilogue = epilogue_cycles(shape)
    vector_reads = [(ref, 1.0) for ref in shape.reduction_reads if ref[vector]]
    weighted_reads = [(ref, loads_per_vector(ref[vector], lanes)) for ref, _ in vector_reads]
    scalar_reads = [(ref, 1.0) for ref in shape.reduction_reads if not ref[vector]]

    ops_per_term = shape.ops_per_term / 2
    streamed = [ref for ref, _ in vector_reads if _is_streamed(ref, extents)]
    visited: set[tuple[tuple[int, ...], tuple[int, ...], int]] = set()

    @cache
    def operand_loads(loops: tuple[int, ...]) -> tuple[_OperandLoads, _OperandLoads, _OperandLoads]:
        vector_loads, scalar_loads = _OperandLoads.of(weighted_reads, loops), _OperandLoads.of(scalar_reads, loops)
        return _OperandLoads.of(vector_reads, loops), vector_loads, scalar_loads

    row_cells = outer_terms * extents[vector]
    operand_rows = [
        prod([extent for n, extent in enumerate(shape.parallel_extents) if ref[n]]) for ref, _ in vector_reads
    ]
    fits_l1 = sum(operand_rows) * row_cells <= machine.L1_ELEMENTS

    @cache
    def filled_rows(loops: tuple[int, ...], sizes: tuple[int, int]) -> float:
        """Returns the rows of operands that a tile reads from L2: all if they do not fit L1, else those that vary along
        the inner loop around tiles, and the others when it starts again; for the best inner loop. Rows of operands that
        come from memory do not count: which loop is the inner one has little effect on their time."""
        tile = dict(zip(loops, sizes, strict=False))
        rows = [prod([size for n, size in tile.items() if ref[n]]) for ref, _ in vector_reads]
        total = sum(rows)
        if total * row_cells > machine.L1_ELEMENTS:
            return total
        if fits_l1 or streamed:
            return 0
        filled = float(total)
        for n, extent in enumerate(shape.parallel_extents):
            trip_count = -(-extent // tile.get(n, 1))
            varying = sum([size for size, (ref, _) in zip(rows, vector_reads, strict=True) if ref[n]])
            filled = min(filled, varying + (total - varying) / trip_count)
        return filled

    for max_first, max_second, max_vectors in machine.REDUCTION_TILE_SHAPES:
        vectors = balanced_size(total_vectors, max_vectors)
        for loops in permutations(rows, (max_first > 1) + (max_second > 1)):
            limits = zip(loops, (max_first, max_second), strict=False)
            sizes = tuple([balanced_size(extents[n], limit) for n, limit in limits])
            if (loops, sizes, vectors) in visited:
                continue
            visited.add((loops, sizes, vectors))
            streams, vector_loads, scalar_loads = operand_loads(loops)
            first, second, *_ = (*sizes, 1, 1)
            is_shared = not all(ref[n] for ref in shape.reduction_reads for n in loops)
            interleaved = sum([any(_compete(ref[n], is_shared) for n in loops) for ref in streamed])
            if (first * second + streams.reused(first, second)) * vectors + 1 > shape.registers:
                continue
            total = 0.0
            partitions = [partition(extents[n], size) for n, size in zip(loops, sizes, strict=True)]
            first_partition, second_partition, *_ = (*partitions, SINGLE_ITERATION, SINGLE_ITERATION)
            for p, first_tiles in first_partition:
                for q, second_tiles in second_partition:
                    area, row_switches = p * q, machine.ROW_SWITCH_CYCLES * streams.per_tile(p, q)
                    loads = vector_loads.per_tile(p, q) * vectors + scalar_loads.per_tile(p, q)
                    loads += machine.LINE_FILL_LOADS * filled_rows(loops, (p, q)) * vectors
                    step = max(area * vectors * ops_per_term, loads / 2, machine.ADD_LATENCY_CYCLES)
                    step += machine.LOOP_OVERHEAD_CYCLES
                    step += interleaved * area * vectors * machine.INTERLEAVED_VECTOR_CYCLES
                    tile = outer_terms * (total_vectors / vectors * step + row_switches)
                    tile += area * (epilogue + 2 * (vectors - 1))
                    tile += machine.TILE_STARTUP_CYCLES
                    total += first_tiles * second_tiles * tile
            cycles = total * cells / prod([extents[n] for n in loops])
            yield Tile(cycles, vector, vectors, tuple(zip(loops, sizes, strict=True)))


@dataclass(frozen=True, slots=True)
class _OperandLoads:
    """Loads per step of a tile along two loops, classified by the loops along which the operands vary."""

    neither: float
    first: float
    second: float
    both: float

    @staticmethod
    def of(reads: Iterable[tuple[Strides, float]], loops: tuple[int, ...]) -> _OperandLoads:
        """Sums the costs of reads by class; there may be fewer than two loops."""
        costs = [0.0] * 4
        for ref, loads in reads:
            costs[sum(1 << bit for bit, n in enumerate(loops) if ref[n])] += loads
        return _OperandLoads(*costs)

    def per_tile(self, first: int, second: int) -> float:
        return self.neither + self.first * first + self.second * second + self.both * first * second

    def reused(self, first: int, second: int) -> float:
        """Returns the loads of operands that several cells of the tile use."""
        area = first * second
        classes = (self.neither, 1), (self.first, first), (self.second, second)
        return sum(loads * copies for loads, copies in classes if copies < area)


def _is_streamed(ref: Strides, extents: tuple[int, ...]) -> bool:
    """Whether every cell of a large operand is read once, so that it comes from memory."""
    is_read_once = all(stride or extent == 1 for stride, extent in zip(ref, extents, strict=True))
    return is_read_once and prod(extents) >= machine.MIN_STREAMED_ELEMENTS


def _compete(stride: int, is_shared: bool) -> bool:
    """Whether rows at this distance are streams of their own that compete for the prefetchers of the processor. Those
    on different pages compete less; a tile of them pays if its rows share an operand."""
    return abs(stride) >= machine.STREAM_ROW_ELEMENTS and not (is_shared and abs(stride) >= machine.PAGE_ELEMENTS)

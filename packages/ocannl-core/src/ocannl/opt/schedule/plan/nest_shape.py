"""Extents and strides of a nest, from which the cost model chooses register tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ocannl.opt import machine_model as machine

Strides = tuple[int, ...]
SINGLE_ITERATION = [(1, 1)]  # the partition of a loop that is not tiled


@dataclass(frozen=True, slots=True)
class NestShape:
    """The extents and strides of a fusion group. Loops are numbered: parallel loops first, then reduction loops; each
    access is given by its strides along all of them."""

    parallel_extents: tuple[int, ...]
    reduction_extents: tuple[int, ...]
    tileable: tuple[bool, ...]  # whether a tile may have several rows, by parallel loop
    vectorizable: tuple[bool, ...]  # by loop
    reduction_reads: tuple[Strides, ...]  # distinct cells read by a term of the reduction
    epilogue_reads: tuple[Strides, ...]  # read once per output cell
    writes: tuple[Strides, ...]
    ops_per_term: int  # additions, without loads
    ops_per_cell: int  # additions in the epilogue
    lanes: int
    registers: int
    read_bytes: int = 4  # of the narrowest cells that a term of the reduction reads


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile: `vectors` vectors along the loop `vector`, and rows along other loops."""

    cycles: float
    vector: int
    vectors: int
    sizes: tuple[tuple[int, int], ...]  # loop and number of iterations, without the vector loop
    transposed_loop: int | None = None  # a loop of `sizes` with unit stride where the vector loop has none


def row_loops(shape: NestShape) -> list[int]:
    """Returns the loops along which a tile may have several rows."""
    return [n for n, extent in enumerate(shape.parallel_extents) if extent > 1 and shape.tileable[n]]


def balanced_size(extent: int, limit: int) -> int:
    """Returns the tile size up to `limit` that makes tiles most equal, for the minimal number of tiles."""
    return -(-extent // -(-extent // limit))


@lru_cache(maxsize=1 << 12)
def partition(extent: int, size: int) -> list[tuple[int, int]]:
    """Partitions a loop into full tiles and a remainder: sizes, and the number of tiles of each size."""
    full, remainder = divmod(extent, size)
    return [part for part in ((size, full), (remainder, 1 if remainder else 0)) if part[1]]


def loads_per_vector(stride: int, lanes: int) -> float:
    """Returns the cost of loading or storing a vector with this stride, in loads."""
    stride = abs(stride)
    return 1 if stride <= 1 else 2 * lanes if is_gathered(stride) else 2 * stride


def is_gathered(stride: int) -> bool:
    """Whether vectors with this stride are assembled from single elements. Insertions of elements occupy the units that
    compute, whereas loads of vectors take no time beside them."""
    return abs(stride) > 4


def epilogue_cycles(shape: NestShape) -> float:
    """Returns the cycles to finish an output cell whose partial sums are complete."""
    stores = len(shape.writes)
    return machine.HORIZONTAL_SUM_CYCLES + shape.ops_per_cell / 2 + len(shape.epilogue_reads) / 2 + stores

"""Branch and bound in the cost model: lower bounds of tile classes, and the best tile."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from ocannl.opt import machine_model
from ocannl.opt.schedule.plan import cost_model
from ocannl.opt.schedule.plan.nest_shape import NestShape


def random_shape(random: Random) -> NestShape:
    """Returns a shape with up to three parallel and two reduction loops, arbitrary strides, and guards."""
    parallel, reduction = (
        tuple([random.choice((1, 2, 3, 7, 16, 33, 64, 250)) for _ in range(random.randint(*depth))])
        for depth in ((1, 3), (0, 2))
    )
    depth = len(parallel + reduction)

    def refs(min_count: int, loops: int) -> tuple[tuple[int, ...], ...]:
        invariant = (0,) * (depth - loops)
        strides = (0, 0, 1, 1, -1, 2, 3, 5, 16, 64, 1000)
        return tuple([(*random.choices(strides, k=loops), *invariant) for _ in range(random.randint(min_count, 3))])

    return NestShape(
        parallel, reduction,
        tileable=tuple([random.random() < 0.9 for _ in parallel]),
        vectorizable=tuple([random.random() < 0.9 for _ in range(depth)]),
        reduction_reads=refs(1, depth),
        epilogue_reads=refs(0, len(parallel)) if reduction else (),
        writes=refs(1, len(parallel)),
        ops_per_term=random.choice((1, 1, 2, 9, 30)),
        ops_per_cell=random.choice((0, 1, 5, 40)) if reduction else 0,
        lanes=random.choice((1, 2, 4, 8, 16)),
        registers=random.choice((16, 32)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_lower_bounds_of_tile_classes_hold(seed: int) -> None:
    random = Random(f"model {seed}")
    for _ in range(50):
        shape = random_shape(random)
        for tile_class in cost_model._tile_classes(shape):
            for tile in tile_class.tiles(shape):
                assert tile.cycles >= tile_class.lower_bound, (shape, tile)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_tile_is_the_first_of_minimal_cost(seed: int) -> None:
    random = Random(f"best {seed}")
    for _ in range(50):
        shape = random_shape(random)
        tiles = [tile for tile_class in cost_model._tile_classes(shape) for tile in tile_class.tiles(shape)]
        assert cost_model.best_tile(shape) == min(tiles, key=lambda tile: tile.cycles, default=None)


def test_concurrent_searches_find_the_same_tile() -> None:
    random = Random(0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(30):
            shape = random_shape(random)
            cost_model._tile_classes_of.cache_clear()
            with ThreadPoolExecutor(4) as threads:
                tiles = list(threads.map(cost_model.best_tile, [shape] * 8))
            cost_model._tile_classes_of.cache_clear()
            assert tiles == [cost_model.best_tile(shape)] * 8
    finally:
        sys.setswitchinterval(interval)


def product_with_vector(rows: int, terms: int, lanes: int = 16) -> NestShape:
    return NestShape(
        (rows,), (terms,), (True,), (True, True), ((terms, 1), (0, 1)), (), ((1, 0),),
        ops_per_term=1, ops_per_cell=0, lanes=lanes, registers=32,
    )  # fmt: skip


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(
    ("rows", "terms", "is_interleaved"),
    [(512, 512, False), (2048, 512, False), (512, 2048, False), (128, 512, True), (1 << 14, 64, True)],
)
def test_large_matrices_are_read_one_row_after_the_other(
    rows: int, terms: int, lanes: int, is_interleaved: bool
) -> None:
    """Matrices that a cache may hold, and short rows, are read several rows at a time, which share the vector."""
    best = cost_model.best_tile(product_with_vector(rows, terms, lanes))
    assert best is not None
    assert best.vector == 1
    assert bool(best.sizes) is is_interleaved


@pytest.mark.parametrize("ops_per_term", [1, 8, 34, 120])
def test_sums_of_rows_are_partial_sums_along_the_rows(ops_per_term: int) -> None:
    """Vectors of cells of several rows would be assembled from single elements, which delays the arithmetic."""
    row_by_row = ((4096, 1),) * 2
    shape = NestShape(
        (4096,), (4096,), tileable=(True,), vectorizable=(True, True), reduction_reads=row_by_row, epilogue_reads=(),
        writes=((1, 0),), ops_per_term=ops_per_term, ops_per_cell=0, lanes=8, registers=16,
    )  # fmt: skip
    tile = cost_model.best_tile(shape)
    assert tile is not None and tile.vector == 1


@pytest.mark.parametrize("ops_per_term", [8, 60])
def test_gathers_of_maps_delay_the_arithmetic(ops_per_term: int) -> None:
    """A map whose vectors would be assembled from cells of different rows is slower, however much it computes."""

    def cycles(stride: int) -> float:
        shape = NestShape(
            (128,), (), tileable=(True,), vectorizable=(True,), reduction_reads=((stride,),), epilogue_reads=(),
            writes=((1,),), ops_per_term=ops_per_term, ops_per_cell=0, lanes=8, registers=16,
        )  # fmt: skip
        return cost_model.min_cycles(shape)

    assert cycles(1536) >= cycles(1) + 128 / 8 * 4


@pytest.mark.parametrize("terms", [1024, 3072, 4096])
def test_rows_at_page_distances_share_few_cache_sets(terms: int) -> None:
    """More rows than the first-level cache has ways would be fetched again for every term; those whose distance is not
    a multiple of a page may be as many as registers allow."""

    def rows(terms: int) -> int:
        extents, reads = (96, 32, terms), ((terms, 0, 1), (0, 1, 32))
        shape = NestShape(
            extents[:2], extents[2:], (True, True), (True, True, False), reads, (), ((32, 1, 0),),
            ops_per_term=1, ops_per_cell=0, lanes=16, registers=32,
        )  # fmt: skip
        tile = cost_model.best_tile(shape)
        assert tile is not None and tile.vector == 1
        return dict(tile.sizes)[0]

    assert rows(terms) <= machine_model.L1_ASSOCIATIVITY < rows(terms + 16)

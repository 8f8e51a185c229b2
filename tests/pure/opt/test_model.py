"""What the model of tiles says before it looks at them: less than any of them takes."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from ocannl.opt.plan import model
from ocannl.opt.plan.model import Shape


def shape(random: Random) -> Shape:
    """Of a group with up to three kept and two reduced loops, in any order in memory, some guarded."""
    kept, reduced = (
        tuple([random.choice((1, 2, 3, 7, 16, 33, 64, 250)) for _ in range(random.randint(*how_many))])
        for how_many in ((1, 3), (0, 2))
    )

    def refs(least: int, loops: int) -> tuple[tuple[int, ...], ...]:
        rest = (0,) * (len(kept + reduced) - loops)
        steps = (0, 0, 1, 1, -1, 2, 3, 5, 16, 64, 1000)
        return tuple([(*random.choices(steps, k=loops), *rest) for _ in range(random.randint(least, 3))])

    return Shape(
        kept, reduced,
        rows=tuple([random.random() < 0.9 for _ in kept]), wide=tuple([random.random() < 0.9 for _ in kept + reduced]),
        terms=refs(1, len(kept + reduced)), others=refs(0, len(kept)) if reduced else (), writes=refs(1, len(kept)),
        work=random.choice((1, 1, 2, 9, 30)), after=random.choice((0, 1, 5, 40)) if reduced else 0,
        lanes=random.choice((1, 2, 4, 8, 16)), registers=random.choice((16, 32)),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_no_tile_takes_less_than_its_family_at_least(seed: int) -> None:
    random = Random(f"model {seed}")
    for _ in range(50):
        some = shape(random)
        for family in model._families(some):
            for tile in family.tiles(some):
                assert tile.cycles >= family.least, (some, tile)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_tile_is_the_first_of_all_those_that_take_least(seed: int) -> None:
    random = Random(f"best {seed}")
    for _ in range(50):
        some = shape(random)
        tiles = [tile for family in model._families(some) for tile in family.tiles(some)]
        assert model.best(some) == min(tiles, key=lambda tile: tile.cycles, default=None)


def test_threads_that_look_at_a_time_find_the_same() -> None:
    random = Random(0)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(30):
            some = shape(random)
            model._families_of.cache_clear()
            with ThreadPoolExecutor(4) as threads:
                found = list(threads.map(model.best, [some] * 8))
            model._families_of.cache_clear()
            assert found == [model.best(some)] * 8
    finally:
        sys.setswitchinterval(usual)

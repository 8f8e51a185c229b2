"""Rows of a tile in which a guard holds have code of their own."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.opt import machine_model as machine
from ocannl.opt.schedule.loop_generation.guarded_rows import guarded_regions
from ocannl.opt.schedule.loop_generation.tile_region import TileRegion, TileRows


def border(row: Sym, window: Sym, dilation: int, padding: int, stride: int = 1) -> tuple[Affine, Affine]:
    """The facts that a convolution with as many inputs as outputs reads no cell of its padding."""
    position = Affine.of(row) * stride + Affine.of(window) * dilation - padding
    return position, Affine.of((row.extent - 1) * stride) - position


def cells(region: TileRegion, values: dict[Sym, int]) -> set[tuple[int, ...]]:
    ranges = [range(row.first.evaluate(values), row.first.evaluate(values) + row.count) for row in region.rows]
    return set(product(*ranges))


def test_a_tile_of_whole_rows_has_a_part_for_each_side() -> None:
    row, window = Sym("i", 0, 13), Sym("k", 0, 2)
    region = TileRegion((TileRows(row, Affine(), 14),), Sym("c", 0, 63))
    parts = guarded_regions(region, Cond(border(row, window, 1, 1)), {row: 14})
    assert parts is not None
    assert [(part.rows[0].offset, part.rows[0].count) for part in parts] == [(0, 13), (1, 13)]


def test_inner_tiles_have_no_parts() -> None:
    row, window, tile = Sym("i", 0, 29), Sym("k", 0, 2), Sym("t", 1, 1)
    region = TileRegion((TileRows(row, Affine.of(tile) * 10, 10),), Sym("c", 0, 63))
    assert guarded_regions(region, Cond(border(row, window, 1, 1)), {row: 10}) == []


def test_many_parts_are_refused() -> None:
    row, window = Sym("i", 0, 29), Sym("k", 0, 29)
    region = TileRegion((TileRows(row, Affine(), 30),), Sym("c", 0, 63))
    triangle = Cond((Affine.of(row) - window,))
    assert guarded_regions(region, triangle, {row: 30}) is None
    assert guarded_regions(region, Cond((), (Affine.of(row) - window,)), {row: 30}) is None


@pytest.mark.parametrize("seed", range(100))
def test_the_largest_part_that_is_inside_of_the_guard_is_all_of_it(seed: int) -> None:
    random = Random(seed)
    facts: list[Affine] = []
    rows: list[TileRows] = []
    loops: list[Sym] = []
    sizes: dict[Sym, int] = {}
    for axis in range(random.randint(1, 2)):
        extent, size = random.randint(1, 30), random.randint(1, 14)
        row, window = Sym(f"i{axis}", 0, extent - 1), Sym(f"k{axis}", 0, random.randint(0, 4))
        tile = Sym(f"t{axis}", 0, -(-extent // size) - 1)
        is_last = extent < size or (extent % size > 0 and random.random() < 0.5)
        rows.append(TileRows(row, Affine.of(tile) * size, extent % size if is_last else size))
        sizes[row] = size
        loops += [window, tile]
        dilation, padding, stride = random.randint(-2, 3), random.randint(0, 6), random.randint(1, 2)
        facts += random.sample(border(row, window, dilation, padding, stride), random.randint(0, 2))
    region, cond = TileRegion(tuple(rows), Sym("c", 0, 63)), Cond(tuple(facts))
    parts = guarded_regions(region, cond, sizes)
    if parts is None:
        return
    assert len(parts) <= machine.MAX_GUARDED_REGIONS
    for values in product(*(range(sym.lo, sym.hi + 1) for sym in loops)):
        outer = dict(zip(loops, values, strict=True))
        tile_cells = cells(region, outer)
        if any(
            row.first.evaluate(outer) + row.count > row.sym.extent
            or (row.count < sizes[row.sym] and row.first.evaluate(outer) + row.count < row.sym.extent)
            for row in rows
        ):
            continue  # no such tile
        syms = [row.sym for row in rows]
        inside = {
            cell for cell in tile_cells
            if all(fact.evaluate({**outer, **dict(zip(syms, cell, strict=True))}) >= 0 for fact in cond.ge0)
        }  # fmt: skip
        largest = next((cells(part, outer) for part in (region, *parts) if cells(part, outer) <= inside), set())
        assert largest == inside

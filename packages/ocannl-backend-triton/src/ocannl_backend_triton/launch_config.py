"""How much a program of a kernel takes at a time, and how many threads work on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ocannl_backend_triton.target import Target

MOST_STAGES = 4
LEAST = 32  # of a tile, and bytes of what is summed: there is little to be had by less
LEAST_SUMMED = 256
TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32), (32, 32))
LARGE = 1 << 14  # cells of a tile: more of them are for more threads


@dataclass(frozen=True, slots=True)
class Sizes:
    """Products of matrices have the largest of `tiles` that makes so many `programs`, or rows and columns of `tile`."""

    cells: int = 1024  # of a block, where nothing is summed
    summed: int = 2048  # of a block that is summed
    tiles: tuple[int, ...] = (128, 64)
    programs: int = 64
    tile: tuple[int, int] | None = None
    depth_bytes: int = 128  # of the terms of a product at a time
    stages: int = 3  # turns of the loop of a product whose loads are under way at the same time
    turns: int = 16  # programs of a multiprocessor, where there may be any number of them
    warps: int | None = None  # groups of 32 threads; None: by the number of cells

    @property
    def many(self) -> int:
        """Programs that keep a GPU busy, whatever each of them finds."""
        return self.programs * self.turns

    @staticmethod
    def of(target: Target) -> Sizes:
        """Tiles so large that every multiprocessor has one, and as many of them under way as a block has memory for."""
        turn_bytes = 2 * USUAL.tiles[0] * USUAL.depth_bytes
        stages = max(2, min(MOST_STAGES, target.shared_bytes // turn_bytes))
        return replace(USUAL, programs=target.multiprocessors, stages=stages)

    def smaller(self) -> Sizes | None:
        """For a kernel that needs more shared memory than there is: what costs least is given up first."""
        if self.stages > 1:
            return replace(self, stages=self.stages - 1)
        if self.depth_bytes > LEAST:
            return replace(self, depth_bytes=self.depth_bytes // 2)
        if self.tile is not None and max(self.tile) > LEAST:
            return replace(self, tile=(max(self.tile[0] // 2, LEAST), max(self.tile[1] // 2, LEAST)))
        if self.tile is None and self.tiles[-1] > LEAST:
            return replace(self, tiles=self.tiles[1:] or (self.tiles[-1] // 2,))
        return replace(self, summed=self.summed // 2) if self.summed > LEAST_SUMMED else None

    def others(self) -> Iterator[Sizes]:
        """What else may be tried, for kernels of any kind; none of it changes the order in which terms are added."""
        for rows, columns in TILES:
            yield replace(self, tile=(rows, columns), warps=8 if rows * columns >= LARGE else 4)
        for size, stages in ((128, 2), (128, self.stages + 1), (64, 2), (64, self.stages + 1)):
            yield replace(self, tile=(size, size), warps=8 if size == self.tiles[0] else 4, stages=stages)
        for cells in (256, 512, 2048, 4096):
            yield replace(self, cells=cells)


USUAL = Sizes()
"""For programs that are for no GPU in particular."""

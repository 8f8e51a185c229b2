"""Launch configurations: block and tile sizes, pipeline stages and warps of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ocannl_backend_triton.cuda_target import CudaTarget

MAX_STAGES = 4
MIN_TILE = 32  # rows or columns of a shrunk matrix tile
MIN_K_BLOCK_BYTES = 32  # of a shrunk block of the reduction loop of a matrix product
MIN_REDUCTION_ELEMENTS = 256
CANDIDATE_TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32), (32, 32))
EIGHT_WARP_TILE_ELEMENTS = 1 << 14  # tiles of at least this size get 8 warps, smaller ones 4


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Matrix products use `tile` (rows, columns) if set, else the largest square of `tile_sizes` that yields at least
    `min_programs` programs."""

    block_elements: int = 1024  # per program, in kernels without a reduction
    reduction_elements: int = 2048  # per program, in kernels with a reduction
    tile_sizes: tuple[int, ...] = (128, 64)
    min_programs: int = 64
    tile: tuple[int, int] | None = None
    k_block_bytes: int = 128  # of one row of a matrix operand per iteration of the reduction loop
    num_stages: int = 3  # software pipelining: iterations of a product's reduction loop whose loads are in flight
    programs_per_multiprocessor: int = 16  # where the number of programs is free
    num_warps: int | None = None  # None: chosen by the number of elements per program

    @property
    def saturating_programs(self) -> int:
        """Number of programs that keeps a GPU busy even if their work is uneven."""
        return self.min_programs * self.programs_per_multiprocessor

    @staticmethod
    def for_target(target: CudaTarget) -> LaunchConfig:
        """The default configuration with one tile per multiprocessor and as many stages as shared memory allows."""
        stage_bytes = 2 * DEFAULT_CONFIG.tile_sizes[0] * DEFAULT_CONFIG.k_block_bytes
        num_stages = max(2, min(MAX_STAGES, target.shared_bytes // stage_bytes))
        return replace(DEFAULT_CONFIG, min_programs=target.multiprocessors, num_stages=num_stages)

    def shrunk(self) -> LaunchConfig | None:
        """The next smaller configuration in shared memory, cheapest sacrifice first; None when there is none."""
        if self.num_stages > 1:
            return replace(self, num_stages=self.num_stages - 1)
        if self.k_block_bytes > MIN_K_BLOCK_BYTES:
            return replace(self, k_block_bytes=self.k_block_bytes // 2)
        if self.tile is not None and max(self.tile) > MIN_TILE:
            return replace(self, tile=(max(self.tile[0] // 2, MIN_TILE), max(self.tile[1] // 2, MIN_TILE)))
        if self.tile is None and self.tile_sizes[-1] > MIN_TILE:
            return replace(self, tile_sizes=self.tile_sizes[1:] or (self.tile_sizes[-1] // 2,))
        if self.reduction_elements > MIN_REDUCTION_ELEMENTS:
            return replace(self, reduction_elements=self.reduction_elements // 2)
        return None

    def candidates(self) -> Iterator[LaunchConfig]:
        """Alternatives for autotuning. None of them changes the order of summation."""
        for rows, columns in CANDIDATE_TILES:
            yield replace(self, tile=(rows, columns), num_warps=8 if rows * columns >= EIGHT_WARP_TILE_ELEMENTS else 4)
        for size, num_stages in ((128, 2), (128, self.num_stages + 1), (64, 2), (64, self.num_stages + 1)):
            num_warps = 8 if size == self.tile_sizes[0] else 4
            yield replace(self, tile=(size, size), num_warps=num_warps, num_stages=num_stages)
        for block_elements in (256, 512, 2048, 4096):
            yield replace(self, block_elements=block_elements)


DEFAULT_CONFIG = LaunchConfig()
"""The configuration for no particular GPU."""

"""Target description: capabilities declared by backends and read by the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.cpu import COMMON_CPU, Cpu
from ocannl.ir.ops import OPS
from ocannl.ir.precision import PRECISIONS

ALL_OPERATIONS = frozenset(op.name for op in OPS)


@dataclass(frozen=True, slots=True)
class TileUnit:
    """The instructions that compute products of tiles.

    Attributes:
        terms_per_cycle: The number of terms that are multiplied and added per cycle.
        additions: The number of rounded additions that a term takes part in, in a sum of up to `MAX_TILE_TERMS` terms.
    """

    terms_per_cycle: int
    additions: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a backend, read by the optimizer and the conformance kit: a claimed capability must work, a
    program that needs any other must raise `Unsupported` naming the field."""

    precisions: frozenset[str] = frozenset(p.name for p in PRECISIONS)
    wants_schedule: bool = True  # loop nests are tiled and vectorized for CPUs
    wants_fusion_groups: bool = False  # without a schedule: reductions with epilogues, fused loops, layouts
    wants_precomputed_weights: bool = False  # weights are packed once, if there is a schedule
    wants_online_softmax: bool = False  # softmax is a single pass over the keys (Milakov and Gimelshein 2018)
    grid_threads: int = 0  # elements processed concurrently by a launch grid; 0: no grid
    alignment_bytes: int = 64  # of every array in a slab
    vector_bytes: int = 0  # size of a SIMD register; 0: scalar code
    vector_registers: int = 16
    bfloat16_dots: bool = False  # instructions that add the products of two pairs of bfloat16 to float32
    int16_dots: bool = False  # instructions that add the products of two pairs of int16 to int32
    bfloat16_tiles: TileUnit | None = None  # instructions for products of bfloat16 tiles, see `ir.tile_products`
    cpu: Cpu = COMMON_CPU  # it affects loop order and tiling, but never the order of floating-point reductions
    timestamps: bool = False  # supports the statement `ReadClock`, with which profiles measure the parts of a nest
    operations: frozenset[str] = ALL_OPERATIONS  # core composes some of the others, see `compose_operations`
    private_arrays: bool = False  # threads fill arrays of their own before a parallel loop, see `ir.private_scope`

    def canonical(self) -> str:
        """Returns a line of text for cache keys."""
        return (
            f"precisions={','.join(sorted(self.precisions))} scheduled={self.wants_schedule} "
            f"grouped={self.wants_fusion_groups} precomputed={self.wants_precomputed_weights} "
            f"online={self.wants_online_softmax} "
            f"lanes={self.grid_threads} align={self.alignment_bytes} private={self.private_arrays} "
            f"vectors={self.vector_registers}x{self.vector_bytes} dots={self.bfloat16_dots},{self.int16_dots} "
            f"tiles={self.bfloat16_tiles} "
            f"without={','.join(sorted(ALL_OPERATIONS - self.operations))} "
            f"{self.cpu.canonical()}"
        )

"""Compilation targets: the compute capability of a GPU and its shared memory per block."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class CudaTarget:
    """`sm` is the compute capability without its point: 80, 90, 120."""

    sm: int
    shared_bytes: int  # maximum per block
    multiprocessors: int

    def __str__(self) -> str:
        return f"sm_{self.sm}"


TARGETS = {
    target.sm: target
    for target in (
        CudaTarget(80, 163 * KIB, 108),  # A100
        CudaTarget(86, 99 * KIB, 84),
        CudaTarget(89, 99 * KIB, 128),
        CudaTarget(90, 227 * KIB, 132),  # H100
        CudaTarget(100, 227 * KIB, 148),
        CudaTarget(120, 99 * KIB, 170),
    )
}
"""Targets for compilation without a GPU, by compute capability."""

"""Owned slabs of device memory, and the layout of arrays in them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from ocannl.backend.api import Device, Location, Pool


class Slab:
    """Device memory, freed when the slab is garbage-collected, or earlier by `release`."""

    __slots__ = ("__weakref__", "_release", "pool", "size_bytes")

    def __init__(self, device: Device, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.pool: Pool = device.alloc_pool(size_bytes)
        self._release = weakref.finalize(self, device.free_pool, self.pool)

    def release(self) -> None:
        """Frees the memory; idempotent."""
        self._release()

    def at(self, offset_bytes: int) -> Location:
        return Location(self.pool, offset_bytes)


def pack(sizes_bytes: Sequence[int], alignment_bytes: int) -> tuple[list[int], int]:
    """Returns aligned offsets of consecutive arrays, and their total size in bytes."""
    offsets, end = [], 0
    for size in sizes_bytes:
        offsets.append(end)
        end += -(-size // alignment_bytes) * alignment_bytes
    return offsets, end

"""Slabs of device memory with an owner, and where arrays lie in them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from ocannl.backend.api import Device, Location, Pool


class Slab:
    """Memory that is given back when nobody refers to the slab any more, or earlier on request."""

    __slots__ = ("__weakref__", "_release", "pool", "size_bytes")

    def __init__(self, device: Device, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.pool: Pool = device.alloc_pool(size_bytes)
        self._release = weakref.finalize(self, device.free_pool, self.pool)

    def release(self) -> None:
        """Gives the memory back; once is enough."""
        self._release()

    def at(self, offset_bytes: int) -> Location:
        return Location(self.pool, offset_bytes)


def packed(sizes_bytes: Sequence[int], alignment_bytes: int) -> tuple[list[int], int]:
    """Offsets of arrays one after another, each aligned, and how much room they take together."""
    offsets, end = [], 0
    for size in sizes_bytes:
        offsets.append(end)
        end += -(-size // alignment_bytes) * alignment_bytes
    return offsets, end

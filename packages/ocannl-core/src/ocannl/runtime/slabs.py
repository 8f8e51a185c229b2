"""Owned slabs of device memory, and the layout of arrays in them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.backend.api import Device, Location, Pool, SupportsHostMemory

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Slab:
    """Device memory, freed when the slab is garbage-collected, or earlier by `release`; `memory` of the host, that
    something else owns, is used in place and not freed."""

    __slots__ = ("__weakref__", "_release", "pool", "size_bytes")

    def __init__(self, device: Device, size_bytes: int, memory: Bytes | None = None) -> None:
        self.size_bytes = size_bytes
        self.pool: Pool
        self._release: Callable[[], object]
        if memory is None:
            self.pool = device.alloc_pool(size_bytes)
            self._release = weakref.finalize(self, device.free_pool, self.pool)
        else:
            assert isinstance(device, SupportsHostMemory)
            self.pool = device.host_pool(memory)
            self._release = lambda: None

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

"""Runs hand-written loop programs on arrays, on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.backend import Backend, CompiledCode, Location
from ocannl.ir.loops import AccessMode, Buf, MemorySpace, Proc, row_major
from ocannl.ir.precision import precision

Array = np.ndarray[Any, Any]


class Runner:
    """Each global buffer is a separate slab."""

    def __init__(self, backend: Backend, threads: int = 3) -> None:
        self.backend = backend
        self.device = backend.device(0)
        self.queue = self.device.queue(threaded=False, threads=threads)

    def like(self, name: str, array: Array, access: AccessMode) -> Buf:
        """A global buffer for an array."""
        return Buf(name, precision(array.dtype), array.shape, row_major(array.shape), MemorySpace.GLOBAL, access)

    def locations(self, proc: Proc, arrays: Sequence[Array]) -> list[Location]:
        locations = [Location(self.device.alloc_pool(array.nbytes), 0) for array in arrays]
        for location, array in zip(locations, arrays, strict=True):
            self.queue.from_host(location, np.ascontiguousarray(array))
        return locations + ([Location(self.device.alloc_pool(proc.arena), 0)] if proc.arena else [])

    def read(self, locations: Sequence[Location], arrays: Sequence[Array]) -> list[Array]:
        out = [np.empty(array.shape, array.dtype) for array in arrays]
        for location, array in zip(locations, out, strict=False):
            self.queue.to_host(location, array)
        return out

    def __call__(
        self, proc: Proc, *arrays: Array, syms: Sequence[int] = (), code: CompiledCode | None = None
    ) -> list[Array]:
        """The arrays after one call of the program."""
        locations = self.locations(proc, arrays)
        entry = self.backend.link(code or self.backend.compile([proc]), proc.name, self.queue, locations)
        entry(*syms)
        return self.read(locations, arrays)

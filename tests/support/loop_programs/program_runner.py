"""Hand-written programs on arrays, by any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.backend import Backend, CompiledCode, Location
from ocannl.ir.loops import AccessMode, Buf, MemorySpace, Proc, row_major
from ocannl.ir.precision import precision

Array = np.ndarray[Any, Any]


class Runner:
    """Each pool buffer is a slab of its own."""

    def __init__(self, backend: Backend, threads: int = 3) -> None:
        self.backend = backend
        self.device = backend.device(0)
        self.queue = self.device.queue(threaded=False, threads=threads)

    def like(self, name: str, array: Array, access: AccessMode) -> Buf:
        """A pool buffer for an array."""
        return Buf(name, precision(array.dtype), array.shape, row_major(array.shape), MemorySpace.GLOBAL, access)

    def locations(self, proc: Proc, arrays: Sequence[Array]) -> list[Location]:
        places = [Location(self.device.alloc_pool(array.nbytes), 0) for array in arrays]
        for place, array in zip(places, arrays, strict=True):
            self.queue.from_host(place, np.ascontiguousarray(array))
        return places + ([Location(self.device.alloc_pool(proc.arena), 0)] if proc.arena else [])

    def read(self, places: Sequence[Location], arrays: Sequence[Array]) -> list[Array]:
        out = [np.empty(array.shape, array.dtype) for array in arrays]
        for place, array in zip(places, out, strict=False):
            self.queue.to_host(place, array)
        return out

    def __call__(
        self, proc: Proc, *arrays: Array, syms: Sequence[int] = (), code: CompiledCode | None = None
    ) -> list[Array]:
        """The arrays after one call of the program."""
        places = self.locations(proc, arrays)
        entry = self.backend.link(code or self.backend.compile([proc]), proc.name, self.queue, places)
        entry(*syms)
        return self.read(places, arrays)

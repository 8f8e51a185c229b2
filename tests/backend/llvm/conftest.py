"""A backend, and a way to run a hand-written program on arrays."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ocannl.backend import Location
from ocannl.ir.loops import Access, Buf, Home, Proc, row_major
from ocannl.ir.precision import precision

pytest.importorskip("llvmlite")

from ocannl_backend_llvm import ocannl_backend


@pytest.fixture(scope="session")
def llvm():
    return ocannl_backend().load()


class Runner:
    """Programs on arrays: each pool buffer is a slab of its own."""

    def __init__(self, backend):
        self.backend = backend
        self.device = backend.device(0)
        self.queue = self.device.queue(threaded=False)

    def like(self, name: str, array: np.ndarray, access: Access) -> Buf:
        """A pool buffer for an array."""
        return Buf(name, precision(array.dtype), array.shape, row_major(array.shape), Home.POOL, access)

    def locations(self, proc: Proc, arrays: Sequence[np.ndarray]) -> list[Location]:
        places = [Location(self.device.alloc_pool(array.nbytes), 0) for array in arrays]
        for place, array in zip(places, arrays, strict=True):
            self.queue.from_host(place, np.ascontiguousarray(array))
        return places + ([Location(self.device.alloc_pool(proc.arena), 0)] if proc.arena else [])

    def read(self, places: Sequence[Location], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        out = [np.empty(array.shape, array.dtype) for array in arrays]
        for place, array in zip(places, out, strict=False):
            self.queue.to_host(place, array)
        return out

    def __call__(self, proc: Proc, *arrays: np.ndarray, syms: Sequence[int] = (), code=None) -> list[np.ndarray]:
        """The arrays after one call of the program."""
        places = self.locations(proc, arrays)
        entry = self.backend.link(code or self.backend.compile([proc]), proc.name, self.queue, places)
        entry(*syms)
        return self.read(places, arrays)


@pytest.fixture(scope="session")
def run(llvm) -> Callable[..., list[np.ndarray]]:
    return Runner(llvm)

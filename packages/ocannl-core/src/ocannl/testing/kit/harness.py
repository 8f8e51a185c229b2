"""Test bench of a backend: runs programs on arrays in guarded memory.

The arrays of a call lie in one slab, at aligned offsets, with guard bytes before and after each. A program must not
write to the guard bytes, nor to read-only arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ocannl.backend.api import Backend, CompiledCode, Device, Entry, Location, Queue
from ocannl.base.errors import Unsupported
from ocannl.codegen.abi import READ_ONLY
from ocannl.ir.loops import Proc
from ocannl.ir.precision import PRECISIONS, Precision, float32
from ocannl.ir.printer import print_proc
from ocannl.opt.simplify.compose_operations import compose_operations
from ocannl.testing.kit.cases import Array, Case
from ocannl.testing.kit.numbers import agree

MARGIN = 0xA5


def call(queue: Queue, entry: Entry, *values: int) -> None:
    """Calls or submits an entry, as the runtime does."""
    if queue.immediate:
        assert not entry(*values), "the entry says that it was cancelled"
    else:
        queue.submit(entry, *values)


class PlacedArrays:
    """Arrays in a separate slab, with guard bytes."""

    def __init__(self, queue: Queue, alignment_bytes: int, arrays: Sequence[Array], arena_bytes: int = 0) -> None:
        self.queue = queue
        self.arrays = arrays
        step = max(alignment_bytes, 8)
        sizes = [a.nbytes for a in arrays] + ([arena_bytes] if arena_bytes else [])
        self.offsets, end = [], step
        for size in sizes:
            self.offsets.append(end)
            end += -(-size // step) * step + step
        self.size_bytes = end
        self.pool = queue.device.alloc_pool(end)
        self.locations = [Location(self.pool, offset) for offset in self.offsets]
        self.image = np.full(end, MARGIN, np.uint8)  # not modified until the queue has copied it
        for array, offset in zip(arrays, self.offsets, strict=False):
            self.image[offset : offset + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if arena_bytes:
            self.image[self.offsets[-1] : self.offsets[-1] + arena_bytes] = 0xFF
        self.arena = slice(self.offsets[-1], self.offsets[-1] + arena_bytes) if arena_bytes else slice(0)
        queue.from_host(Location(self.pool, 0), self.image)

    def read(self) -> list[Array]:
        """Reads the arrays; asserts that the guard bytes are unchanged."""
        bytes_read = np.empty(self.size_bytes, np.uint8)
        self.queue.to_host(Location(self.pool, 0), bytes_read)
        self.queue.synchronize()
        watched = np.ones(self.size_bytes, bool)
        watched[self.arena] = False
        out = []
        for array, offset in zip(self.arrays, self.offsets, strict=False):
            where = slice(offset, offset + array.nbytes)
            watched[where] = False
            out.append(bytes_read[where].view(array.dtype).reshape(array.shape))
        changed = np.flatnonzero(watched & (bytes_read != self.image))
        assert not len(changed), f"bytes outside of all arrays changed, the first at {changed[0]} of {self.offsets}"
        return out

    def free(self) -> None:
        self.queue.device.free_pool(self.pool)


class Bench:
    """A backend, its first device, and a queue without a thread."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.device: Device = backend.device(0)
        self.queue: Queue = self.device.queue(threaded=False)
        self._codes: dict[int, tuple[object, CompiledCode | None]] = {}

    # ------------------------------------------------------------------------------------------------ capabilities

    def claims(self, *precisions: Precision | str) -> bool:
        return {str(p) for p in precisions} <= self.backend.capabilities.precisions

    @property
    def number(self) -> Precision:
        """A supported type in which small integers are exact."""
        claimed = [p for p in PRECISIONS if self.claims(p) and p.nbytes > 2]
        if not claimed:
            pytest.skip("the backend claims no type of four or eight bytes")
        return float32 if float32 in claimed else claimed[-1]

    def two(self) -> tuple[Device, Device]:
        if self.backend.device_count() < 2:
            pytest.skip("the backend has one device only")
        return self.backend.device(0), self.backend.device(1)

    def refuses(self, proc: Proc, capability: str = "precisions") -> None:
        """Asserts that a program is refused with `Unsupported`, naming the capability."""
        with pytest.raises(Unsupported, match=capability):
            self.backend.compile([proc])

    # -------------------------------------------------------------------------------------------------------- running

    def code(self, proc: Proc, among: Iterable[Proc] = ()) -> CompiledCode:
        """Compiles a program, together with the supported programs `among`, since compilers have a fixed overhead."""
        capabilities = self.backend.capabilities
        composed = compose_operations(proc, capabilities)
        if composed is not proc:
            return self.backend.compile([composed])
        together = [p for p in among if self.claims(*(b.precision for b in p.bufs))]
        together = [p for p in together if compose_operations(p, capabilities) is p]
        if any(p is proc for p in together):
            key = id(together[0])
            if key not in self._codes:
                try:
                    self._codes[key] = (together, self.backend.compile(together))
                except Exception:  # any error of the tested backend
                    self._codes[key] = (together, None)  # each is compiled separately, and raises its error
            code = self._codes[key][1]
            if code is not None:
                return code
        return self.backend.compile([proc])

    def allocate(self, proc: Proc, arrays: Sequence[Array], queue: Queue | None = None) -> PlacedArrays:
        return PlacedArrays(queue or self.queue, self.backend.capabilities.alignment_bytes, arrays, proc.arena)

    @contextmanager
    def placed(self, proc: Proc, arrays: Sequence[Array], queue: Queue | None = None) -> Iterator[PlacedArrays]:
        placed = self.allocate(proc, arrays, queue)
        try:
            yield placed
        finally:
            placed.free()

    def link(self, code: CompiledCode, proc: Proc, placed: PlacedArrays) -> Entry:
        return self.backend.link(code, proc.name, placed.queue, placed.locations)

    def run(
        self, case: Case, among: Iterable[Case] = (), *, code: CompiledCode | None = None, queue: Queue | None = None
    ) -> list[Array]:
        """The memory after one call; asserts that read-only arrays are unchanged."""
        proc = case.proc
        code = code or self.code(proc, [c.proc for c in among])
        with self.placed(proc, case.inputs, queue) as placed:
            call(placed.queue, self.link(code, proc, placed), *case.values)
            after = placed.read()
        for buf, array, result in zip(case.pools, case.inputs, after, strict=True):
            if buf.access in READ_ONLY:
                same = np.array_equal(array.reshape(-1).view(np.uint8), result.reshape(-1).view(np.uint8))
                assert same, f"`{buf.name}` is `{buf.access.value}`, and was written"
        return after

    def check(self, case: Case, among: Iterable[Case] = (), **how: Any) -> None:
        """Asserts that the memory after one call is exactly as expected."""
        got = self.run(case, among, **how)
        for buf, result, want in zip(case.pools, got, case.expected(), strict=True):
            agree(f"`{buf.name}` after\n{print_proc(case.proc)}", result, want)

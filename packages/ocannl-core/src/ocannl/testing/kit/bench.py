"""The bench that a backend is tested on: programs on arrays, in memory that is watched.

All arrays of a call lie in one slab, at aligned offsets, with a margin before and after each. Whatever a program is
asked to do, it must not touch the margins, nor what it may only read.
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
from ocannl.testing.kit.cases import Array, Case
from ocannl.testing.kit.numbers import agree

MARGIN = 0xA5


def call(queue: Queue, entry: Entry, *values: int) -> None:
    """As the runtime does it."""
    if queue.immediate:
        assert not entry(*values), "the entry says that it was cancelled"
    else:
        queue.submit(entry, *values)


class Placed:
    """Arrays in a slab of their own, with margins."""

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
        self.image = np.full(end, MARGIN, np.uint8)  # the host's until the queue has come to it
        for array, offset in zip(arrays, self.offsets, strict=False):
            self.image[offset : offset + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if arena_bytes:
            self.image[self.offsets[-1] : self.offsets[-1] + arena_bytes] = 0xFF
        self.arena = slice(self.offsets[-1], self.offsets[-1] + arena_bytes) if arena_bytes else slice(0)
        queue.from_host(Location(self.pool, 0), self.image)

    def read(self) -> list[Array]:
        """What the arrays hold now. Nothing else of the slab has changed, but for the arena."""
        found = np.empty(self.size_bytes, np.uint8)
        self.queue.to_host(Location(self.pool, 0), found)
        self.queue.synchronize()
        watched = np.ones(self.size_bytes, bool)
        watched[self.arena] = False
        out = []
        for array, offset in zip(self.arrays, self.offsets, strict=False):
            where = slice(offset, offset + array.nbytes)
            watched[where] = False
            out.append(found[where].view(array.dtype).reshape(array.shape))
        changed = np.flatnonzero(watched & (found != self.image))
        assert not len(changed), f"bytes outside of all arrays changed, the first at {changed[0]} of {self.offsets}"
        return out

    def free(self) -> None:
        self.queue.device.free_pool(self.pool)


class Bench:
    """A backend, its first device, and a queue that need not be threaded."""

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
        """A type that the backend has, for programs that need one; small whole numbers are exact in it."""
        claimed = [p for p in PRECISIONS if self.claims(p) and p.nbytes > 2]
        if not claimed:
            pytest.skip("the backend claims no type of four or eight bytes")
        return float32 if float32 in claimed else claimed[-1]

    def two(self) -> tuple[Device, Device]:
        if self.backend.device_count() < 2:
            pytest.skip("the backend has one device only")
        return self.backend.device(0), self.backend.device(1)

    def refuses(self, proc: Proc, capability: str = "precisions") -> None:
        """What is not claimed must be refused, by name."""
        with pytest.raises(Unsupported, match=capability):
            self.backend.compile([proc])

    # -------------------------------------------------------------------------------------------------------- running

    def code(self, proc: Proc, among: Iterable[Proc] = ()) -> CompiledCode:
        """Compiled along with others, as far as they can be: compilers take their time once for all."""
        together = [p for p in among if self.claims(*(b.precision for b in p.bufs))]
        if any(p is proc for p in together):
            key = id(together[0])
            if key not in self._codes:
                try:
                    self._codes[key] = (together, self.backend.compile(together))
                except Exception:
                    self._codes[key] = (together, None)  # each will tell for itself
            code = self._codes[key][1]
            if code is not None:
                return code
        return self.backend.compile([proc])

    def place(self, proc: Proc, arrays: Sequence[Array], queue: Queue | None = None) -> Placed:
        return Placed(queue or self.queue, self.backend.capabilities.alignment_bytes, arrays, proc.arena)

    @contextmanager
    def placed(self, proc: Proc, arrays: Sequence[Array], queue: Queue | None = None) -> Iterator[Placed]:
        placed = self.place(proc, arrays, queue)
        try:
            yield placed
        finally:
            placed.free()

    def link(self, code: CompiledCode, proc: Proc, placed: Placed) -> Entry:
        return self.backend.link(code, proc.name, placed.queue, placed.locations)

    def run(
        self, case: Case, among: Iterable[Case] = (), *, code: CompiledCode | None = None, queue: Queue | None = None
    ) -> list[Array]:
        """The memory after one call; what may only be read is as it was."""
        proc = case.proc
        code = code or self.code(proc, [c.proc for c in among])
        with self.placed(proc, case.given, queue) as placed:
            call(placed.queue, self.link(code, proc, placed), *case.values)
            after = placed.read()
        for buf, array, found in zip(case.pools, case.given, after, strict=True):
            if buf.access in READ_ONLY:
                same = np.array_equal(array.reshape(-1).view(np.uint8), found.reshape(-1).view(np.uint8))
                assert same, f"`{buf.name}` is `{buf.access.value}`, and was written"
        return after

    def check(self, case: Case, among: Iterable[Case] = (), **how: Any) -> None:
        """The memory after one call is what it should be, exactly."""
        got = self.run(case, among, **how)
        for buf, found, want in zip(case.pools, got, case.wanted(), strict=True):
            agree(f"`{buf.name}` after\n{print_proc(case.proc)}", found, want)

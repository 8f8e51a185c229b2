"""The processor as devices: slabs of host memory and queues, shared by every backend whose code runs there.

A device is an account of memory with queues of its own; there are as many as cores, and at least `LEAST`, so that code
for several devices runs anywhere.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ocannl.backend.api import Device, Location, Queue
from ocannl.backend.cpu.queue import InlineQueue, ThreadedQueue
from ocannl.base.errors import OutOfMemory
from ocannl.ir.capabilities import Caches

ALIGNMENT_BYTES = 64  # a cache line, and the widest vector
LEAST = 8


@dataclass(eq=False, slots=True)
class Slab:
    """Host memory that begins at an aligned address and lives as long as someone holds the slab."""

    bytes: np.ndarray[Any, np.dtype[np.uint8]]
    address: int


@cache
def memory_bytes() -> int:
    """What this process may use at most: an allocation beyond that may appear to work, and kill the process later."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if hasattr(os, "sysconf") else []
    with suppress(OSError, ValueError):  # no such file, or no such limit
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits, default=1 << 62)


@cache
def caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> Caches:
    """Those of the processor, as far as the system tells."""
    usual, found = Caches(), dict[int, tuple[int, int]]()
    for index in sorted(folder.glob("index*")):
        with suppress(OSError, ValueError):
            level, kind, size, ways = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "ways_of_associativity")
            )
            if kind != "Instruction":
                found[int(level)] = int(size.removesuffix("K")) << 10, int(ways)
    core = found.get(2, (0, 0))
    if not all(core):
        return usual
    return Caches(*core, max(size for size, _ in found.values()))


class CpuDevice:
    """Implements `Device`."""

    __slots__ = ("_in_use", "_lock", "_ordinal")

    def __init__(self, ordinal: int = 0) -> None:
        self._ordinal = ordinal
        self._in_use = 0
        self._lock = threading.Lock()

    @property
    def ordinal(self) -> int:
        return self._ordinal

    @property
    def bytes_in_use(self) -> int:
        return self._in_use

    def after_fork(self) -> None:
        """A child does not wait for a lock that nobody in it holds."""
        self._lock = threading.Lock()

    def alloc_pool(self, size_bytes: int) -> Slab:
        with self._lock:
            wanted = self._in_use + size_bytes
            refusal = f"no {size_bytes} bytes of memory to give; {self._in_use} of {memory_bytes()} are in use"
            if wanted > memory_bytes():
                raise OutOfMemory(refusal)
            try:
                raw = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
            except MemoryError:
                raise OutOfMemory(refusal) from None
            self._in_use = wanted
        start = -raw.ctypes.data % ALIGNMENT_BYTES
        return Slab(raw[start : start + size_bytes], raw.ctypes.data + start)

    def free_pool(self, pool: Slab) -> None:
        """The slab is no longer counted; its memory goes when the last linked routine lets go of it."""
        with self._lock:
            self._in_use -= pool.bytes.nbytes

    def window(self, where: Location, size_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes themselves, not a copy."""
        slab: Slab = where.pool
        _require_inside(slab, where.offset_bytes, size_bytes)
        return slab.bytes[where.offset_bytes : where.offset_bytes + size_bytes]

    def array(self, where: Location, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The memory itself, as an array of the shape and type of another."""
        slab: Slab = where.pool
        _require_inside(slab, where.offset_bytes, like.nbytes)
        return np.ndarray(like.shape, like.dtype, slab.bytes, where.offset_bytes)

    def address(self, where: Location) -> int:
        slab: Slab = where.pool
        return slab.address + where.offset_bytes

    def reaches(self, other: Device) -> bool:
        return isinstance(other, CpuDevice)

    def queue(self, threaded: bool, threads: int = 1) -> Queue:
        return ThreadedQueue(self, threads) if threaded else InlineQueue(self, threads)


def _require_inside(slab: Slab, start: int, size_bytes: int) -> None:
    if start < 0 or start + size_bytes > slab.bytes.nbytes:
        raise IndexError(f"bytes {start} to {start + size_bytes} of a slab of {slab.bytes.nbytes}")


@cache
def devices() -> tuple[CpuDevice, ...]:
    """Those of this process."""
    return tuple(CpuDevice(n) for n in range(max(LEAST, cores())))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _after_fork() -> None:
    for device in devices():
        device.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

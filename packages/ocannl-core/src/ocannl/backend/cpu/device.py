"""CPU devices: slabs of host memory and queues, shared by all CPU backends.

A device is a separate memory budget with its own queues. There are as many as cores, and at least `MIN_DEVICES`, so
that multi-device code runs on any machine.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ocannl.backend.api import Device, Location, Queue
from ocannl.backend.cpu.host_slab import HostSlab, aligned_slab
from ocannl.backend.cpu.queue import InlineQueue, ThreadedQueue
from ocannl.base.errors import OutOfMemory
from ocannl.base.forks import after_fork_in_child

MIN_DEVICES = 8


@cache
def memory_bytes() -> int:
    """Returns the memory limit of this process; overcommitted allocations would succeed and kill the process later."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if hasattr(os, "sysconf") else []
    with suppress(OSError, ValueError):  # no cgroup, or no limit
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits, default=1 << 62)


class CpuDevice:
    """Implements `Device`."""

    __slots__ = ("_in_use", "_lock", "_ordinal")

    def __init__(self, ordinal: int = 0) -> None:
        self._ordinal = ordinal
        self._in_use = 0
        self._lock = threading.RLock()  # the garbage collector may free slabs in the middle of an allocation

    @property
    def ordinal(self) -> int:
        return self._ordinal

    @property
    def bytes_in_use(self) -> int:
        return self._in_use

    def after_fork(self) -> None:
        """Replaces the lock: in a child process, the thread that held it does not exist."""
        self._lock = threading.RLock()

    def alloc_pool(self, size_bytes: int) -> HostSlab:
        with self._lock:
            limit = memory_bytes()
            message = f"no {size_bytes} bytes of memory to give; {self._in_use} of {limit} are in use"
            if self._in_use + size_bytes > limit:
                raise OutOfMemory(message)
            try:
                slab = aligned_slab(size_bytes)
            except MemoryError:
                raise OutOfMemory(message) from None
            self._in_use += size_bytes
        return slab

    def free_pool(self, pool: HostSlab) -> None:
        """Removes the slab from the budget; its memory is freed with the last routine that references it."""
        with self._lock:
            self._in_use -= pool.bytes.nbytes

    def host_pool(self, memory: np.ndarray[Any, np.dtype[np.uint8]]) -> HostSlab:
        """Returns a slab of memory that is no part of the budget."""
        return HostSlab(memory, memory.ctypes.data)

    def window(self, where: Location, size_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Returns a view of the bytes."""
        slab: HostSlab = where.pool
        _require_inside(slab, where.offset_bytes, size_bytes)
        return slab.bytes[where.offset_bytes : where.offset_bytes + size_bytes]

    def array(self, where: Location, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns a view of the memory, with the shape and type of `like`."""
        slab: HostSlab = where.pool
        _require_inside(slab, where.offset_bytes, like.nbytes)
        return np.ndarray(like.shape, like.dtype, slab.bytes, where.offset_bytes)

    def address(self, where: Location) -> int:
        slab: HostSlab = where.pool
        return slab.address + where.offset_bytes

    def reaches(self, source: Device) -> bool:
        return isinstance(source, CpuDevice)

    def queue(self, threaded: bool, threads: int = 1) -> Queue:
        return ThreadedQueue(self, threads) if threaded else InlineQueue(self, threads)


def _require_inside(slab: HostSlab, start: int, size_bytes: int) -> None:
    if start < 0 or start + size_bytes > slab.bytes.nbytes:
        raise IndexError(f"bytes {start} to {start + size_bytes} of a slab of {slab.bytes.nbytes}")


@cache
def devices() -> tuple[CpuDevice, ...]:
    """Returns the CPU devices of this process."""
    return tuple(CpuDevice(n) for n in range(max(MIN_DEVICES, cores())))


def cores() -> int:
    """Returns the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@after_fork_in_child
def _after_fork() -> None:
    for device in devices():
        device.after_fork()

"""The transport plugin API: communication between the processes of a world.

All processes run the same script. A transport numbers them by rank, opens shared windows of memory between processes of
one host, and communicates by persistent requests: buffers and partners are bound once, and each `start` repeats the
communication. Core plans all exchanges, waits for requests and watches for lost processes; a transport moves bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

ALIGNMENT_BYTES = 64
"""The alignment of the parts of windows."""

API_VERSION = 1
"""The version of this interface that the core implements."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class PersistentRequest(Protocol):
    """A persistent communication; its memory belongs to the transport from `start` until `is_done` is true."""

    def start(self) -> None: ...

    def is_done(self) -> bool:
        """Whether the communication has completed, or was never started. Makes progress, and never blocks."""
        ...


def aligned(memory: Bytes, size_bytes: int) -> Bytes:
    """The first bytes of a memory at an address that is a multiple of `ALIGNMENT_BYTES`; the memory has that many bytes
    more. In a window that starts with a page, the offset is the same in all processes."""
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + size_bytes]


class Transport(Protocol):
    """The connection of one process to all processes of its world. Its methods may be called by several threads.

    Memory is given as contiguous arrays of bytes. Messages between two ranks with one tag arrive in order.
    """

    @property
    def name(self) -> str: ...

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def hosts(self) -> Sequence[int]:
        """A number for the host of each rank: ranks of equal numbers can share memory."""
        ...

    def window(self, ranks: Sequence[int], sizes_bytes: Sequence[int]) -> list[Bytes]:
        """Allocates memory that some ranks of one host access, in ascending order, and returns the part of each, in its
        size and aligned to 64 bytes. All of these ranks, and only they, call this in the same order."""
        ...

    def fence(self) -> None:
        """Orders the accesses of this process to windows: a rank that sees a write after the fence sees all writes
        before, and no read after the fence is executed before."""
        ...

    def sender(self, memory: Bytes, target: int, tag: int) -> PersistentRequest:
        """Returns a request that sends the bytes to rank `target`; no bytes are a signal. Tags are below 32768."""
        ...

    def receiver(self, memory: Bytes, source: int, tag: int) -> PersistentRequest:
        """Returns a request that receives as many bytes from rank `source`."""
        ...

    def gatherer(self, memory: Bytes, out: Bytes) -> PersistentRequest:
        """Returns a request that stores the bytes of all ranks, ordered by rank, in `out` of every rank. All ranks
        create and start such requests in the same order."""
        ...

    def abort(self, status: int) -> None:
        """Ends all processes of the world at once, with this exit status."""
        ...

    def close(self) -> None:
        """Ends the connection; all ranks call this, after their last communication. Windows stay valid memory."""
        ...


@dataclass(frozen=True, slots=True)
class TransportInfo:
    """The descriptor of a plugin; creating it must not import expensive modules or connect to other processes.

    `probe` returns None if the transport works on this machine, otherwise the reason why not; `connect` returns the
    connection of this process.
    """

    name: str
    api_version: int
    description: str
    probe: Callable[[], str | None]
    connect: Callable[[], Transport]

"""Communication of the processes of one host through shared memory.

Every process has a counter in a window that the others can read. A process that has stored its bytes there increments
its counter, and waits until the counters of all others are as high. This takes less than a microsecond; messages take
more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ocannl.runtime.slabs import pack
from ocannl.transport.api import ALIGNMENT_BYTES, Bytes, Transport

CHUNK_BYTES = 1 << 16
COUNTER_BYTES = 8


class WindowAllocator:
    """Allocates memory in windows of some ranks, several small parts in one window, and sets it to zero. The processes
    of all these ranks make the same calls; `synchronize` waits for all of them."""

    def __init__(self, transport: Transport, ranks: Sequence[int], synchronize: Callable[[], object]) -> None:
        self._transport, self.ranks, self._synchronize = transport, ranks, synchronize
        self._parts: list[Bytes] = []
        self._used_bytes = CHUNK_BYTES

    def allocate(self, size_bytes: int) -> list[Bytes]:
        """Returns a part of this size of each rank, which is zero in the view of all."""
        start = self._used_bytes
        end = start + -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if end > CHUNK_BYTES:
            start, end = 0, end - start
            self._parts = self._transport.window(self.ranks, [max(end, CHUNK_BYTES)] * len(self.ranks))
            self._parts[self.ranks.index(self._transport.rank)][:] = 0
            self._transport.fence()
            self._synchronize()
            self._transport.fence()
        self._used_bytes = end
        return [part[start : start + size_bytes] for part in self._parts]


class Gatherer(Protocol):
    """A request that gathers the bytes of all processes."""

    @property
    def buffers(self) -> Sequence[Sequence[Bytes]]:
        """Places of the bytes of all ranks, by rank; consecutive calls may store them in different places."""
        ...

    @property
    def index(self) -> int:
        """The number of the buffers of the last call, whose contents are valid until the next `start`."""
        ...

    def start(self) -> None: ...

    def is_done(self) -> bool: ...


class MessageGatherer:
    """Implements `Gatherer` by a request of a transport."""

    index = 0

    def __init__(self, transport: Transport, memory: Bytes) -> None:
        out = np.zeros(memory.nbytes * transport.size, np.uint8)
        self.buffers = (np.split(out, transport.size),)
        request = transport.gatherer(memory, out)
        self.start, self.is_done = request.start, request.is_done


class WindowGatherer:
    """Implements `Gatherer` by shared memory; without bytes, it is a barrier.

    Two buffers are used in turn: a process fills a buffer for the second time after all others have started the call
    between, and so have read the buffer. All processes create this together.
    """

    def __init__(self, transport: Transport, memory: Bytes, allocator: WindowAllocator) -> None:
        size = memory.nbytes
        (_, *starts), total = pack([COUNTER_BYTES, size, size], ALIGNMENT_BYTES)
        parts = allocator.allocate(total)
        counters = [part[:COUNTER_BYTES].data.cast("q") for part in parts]
        self._counter = counters.pop(transport.rank)
        self._counters = counters
        self._memory, self._fence = memory, transport.fence
        self.buffers = [[part[start : start + size] for part in parts] for start in starts]
        self._targets = [buffers[transport.rank] for buffers in self.buffers]
        self._has_content = size > 0
        self._number = 0
        self.index = 0

    def start(self) -> None:
        self._number += 1
        self.index = index = self._number & 1
        if self._has_content:
            self._targets[index][...] = self._memory
        self._fence()
        self._counter[0] = self._number

    def is_done(self) -> bool:
        number = self._number
        for counter in self._counters:
            if counter[0] < number:
                return False
        self._fence()
        return True


class SlotRequest:
    """A request that sends or receives values through a slot in shared memory, which holds one value.

    The sender counts the values that it has stored, the receiver those that it has requested. The sender calls `start`
    when a value is in `memory`; it is done when the next is requested, which may be stored there. The receiver calls it
    at first, and when it has consumed a value; it is done when the next is in `memory`. Both create this together.
    """

    def __init__(self, transport: Transport, allocator: WindowAllocator, sends: bool, size_bytes: int) -> None:
        (_, start), total = pack([COUNTER_BYTES, size_bytes], ALIGNMENT_BYTES)
        parts = dict(zip(allocator.ranks, allocator.allocate(total), strict=True))
        part, (peer_part,) = parts.pop(transport.rank), parts.values()
        self.memory = (part if sends else peer_part)[start : start + size_bytes]
        self._counter, self._peer_counter = (p[:COUNTER_BYTES].data.cast("q") for p in (part, peer_part))
        self._requested = int(sends)
        self._fence = transport.fence

    def start(self) -> None:
        self._fence()
        self._counter[0] += 1

    def is_done(self) -> bool:
        if self._peer_counter[0] < self._counter[0] + self._requested:
            return False
        self._fence()
        return True

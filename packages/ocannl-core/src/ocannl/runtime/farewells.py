"""Farewells: at its end, every process of a world sends a signal to all others.

A process that ends before the others, such as by `sys.exit`, waits for their ends. Whoever waits for it in turn would
wait forever, and raises an error instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from ocannl.base.errors import ProcessEnded
from ocannl.transport.api import PersistentRequest, Transport

FAREWELL_TAG = 1
CHECK_SECONDS = 0.1


class Farewells:
    """The farewells between this process and all others.

    Requests that need an ended process may still complete, since its last messages can be under way; `limit_seconds` is
    how long this may take.
    """

    def __init__(self, transport: Transport, limit_seconds: float) -> None:
        self._transport, self._limit_seconds = transport, limit_seconds
        self._ends: dict[int, float] = {}
        ranks = [rank for rank in range(transport.size) if rank != transport.rank]
        self._senders = {rank: transport.sender(np.zeros(0, np.uint8), rank, FAREWELL_TAG) for rank in ranks}
        self._receivers = {rank: transport.receiver(np.zeros(0, np.uint8), rank, FAREWELL_TAG) for rank in ranks}
        for receiver in self._receivers.values():
            receiver.start()

    def send(self) -> None:
        for sender in self._senders.values():
            sender.start()

    def requests(self) -> Iterator[tuple[int, PersistentRequest]]:
        """All requests, and the ranks that they need."""
        yield from self._senders.items()
        yield from self._receivers.items()

    def check(self, rank: int | None, start: float) -> None:
        """Raises `ProcessEnded` if a process that has ended is waited for: the one of this rank, or any process.

        `start` is the value of `time.perf_counter` at the beginning of the wait.
        """
        now, waiting = time.perf_counter(), self._transport.rank
        for ended, receiver in self._receivers.items():
            if rank not in (None, ended) or not receiver.is_done():
                continue
            if now - max(start, self._ends.setdefault(ended, now)) > self._limit_seconds:
                raise ProcessEnded(
                    f"rank {ended} of {self._transport.size} has ended, but rank {waiting} waits for it"
                    "\n  fix  let all processes create and call the same exchanges before they end"
                )

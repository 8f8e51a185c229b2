"""Heartbeats: the processes of a world form a ring, in which each watches the one before.

The length of calls is not limited: a thread sends the heartbeats, whatever the main thread computes or waits for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from ocannl.transport.api import Transport

HEARTBEAT_TAG = 0
PERIOD_SECONDS = 0.25


class Heartbeats:
    """Sends a heartbeat to the next rank, and calls `fail` with a message if those of the rank before stop for so
    long."""

    def __init__(self, transport: Transport, limit_seconds: float, fail: Callable[[str], None]) -> None:
        self._transport, self._limit_seconds, self._fail = transport, limit_seconds, fail
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ocannl heartbeats", daemon=True)
        if transport.size > 1:
            self._thread.start()

    def _run(self) -> None:
        rank, size = self._transport.rank, self._transport.size
        watched = (rank - 1) % size
        sender = self._transport.sender(np.zeros(1, np.uint8), (rank + 1) % size, HEARTBEAT_TAG)
        receiver = self._transport.receiver(np.zeros(1, np.uint8), watched, HEARTBEAT_TAG)
        receiver.start()
        last_beat = last_look = time.monotonic()
        while not self._stopped.wait(PERIOD_SECONDS):
            now = time.monotonic()
            if now - last_look > 4 * PERIOD_SECONDS:  # this process was stopped or starved: it cannot judge another
                last_beat = now
            last_look = now
            if sender.is_done():
                sender.start()
            if receiver.is_done():
                last_beat = now
                receiver.start()
            elif now - last_beat > self._limit_seconds:
                self._fail(f"rank {watched} of {size} has not responded for {self._limit_seconds} seconds")

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

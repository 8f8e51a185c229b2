"""Heartbeats: the processes of a world form a ring, in which each watches the one before.

The length of calls is not limited: a thread sends the heartbeats, whatever the main thread computes or waits for. A
heartbeat is the number of the process; the last one, at the end of the world, is 0, after which none is under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from os import getpid
from pathlib import Path

import numpy as np

from ocannl.transport.api import Transport

HEARTBEAT_TAG = 0
PERIOD_SECONDS = 0.25
STARVED_LIMITS = 10
"""A process that waits for a processor may miss heartbeats for so many times the limit."""


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
        rank, size, hosts = self._transport.rank, self._transport.size, self._transport.hosts
        watched = (rank - 1) % size
        sent, received = np.array([getpid()]), np.zeros(1, np.int64)
        sender = self._transport.sender(sent.view(np.uint8), (rank + 1) % size, HEARTBEAT_TAG)
        receiver = self._transport.receiver(received.view(np.uint8), watched, HEARTBEAT_TAG)
        receiver.start()
        process = 0  # of the watched rank
        is_watching = True
        last_beat = last_look = time.monotonic()
        while is_watching or sent[0] or not sender.is_done():
            self._stopped.wait(PERIOD_SECONDS if sent[0] else PERIOD_SECONDS / 100)
            now = time.monotonic()
            if now - last_look > 4 * PERIOD_SECONDS:  # this process was stopped or starved: it cannot judge another
                last_beat = now
            last_look = now
            if sent[0] and sender.is_done():
                sent[0] = 0 if self._stopped.is_set() else sent[0]
                sender.start()
            if is_watching and receiver.is_done():
                last_beat, process = now, int(received[0])
                is_watching = process != 0
                if is_watching:
                    receiver.start()
            elif is_watching and (missing := now - last_beat) > self._limit_seconds:
                can_see = process and hosts[watched] == hosts[rank]
                if missing < STARVED_LIMITS * self._limit_seconds and can_see and waits_for_processor(process):
                    continue
                self._fail(f"rank {watched} of {size} has not responded for {self._limit_seconds} seconds")

    def stop(self) -> None:
        """Sends the last heartbeat, and waits for that of the watched rank."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()


def waits_for_processor(process: int) -> bool:
    """Whether a thread of a process of this host could run, or waits for a disk. False where the system has no /proc.
    """
    try:
        threads = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/stat")]
    except OSError:  # a thread ends meanwhile
        return True
    return any(text.rpartition(") ")[2][:1] in ("R", "D") for text in threads)

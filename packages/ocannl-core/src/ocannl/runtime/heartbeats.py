"""Heartbeats: the processes of a world form a ring, in which each watches the one before.

The length of calls is not limited: a thread sends the heartbeats, whatever the main thread computes or waits for. A
heartbeat is 1; the last one, at the end of the world, is 0, after which none is under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ocannl.transport.api import Transport

HEARTBEAT_TAG = 0
PERIOD_SECONDS = 0.25
STARVED_LIMITS = 10
"""For so many times the limit, heartbeats may be missed by a process that waits for a processor, and by one that has
ended: the launcher ends all processes then, and reports that one, but may wait for a processor, too."""


class Heartbeats:
    """Sends a heartbeat to the next rank, and calls `fail` with a message if those of the rank before stop for so
    long."""

    def __init__(self, transport: Transport, limit_seconds: float, fail: Callable[[str], None]) -> None:
        self._transport, self._limit_seconds, self._fail = transport, limit_seconds, fail
        self._watched = (transport.rank - 1) % transport.size
        self._process: int | None = None  # of the watched rank, if it can be seen
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ocannl heartbeats", daemon=True)
        if transport.size > 1:
            self._thread.start()

    def _run(self) -> None:
        rank, size, watched = self._transport.rank, self._transport.size, self._watched
        sent, received = np.ones(1, np.uint8), np.zeros(1, np.uint8)
        sender = self._transport.sender(sent, (rank + 1) % size, HEARTBEAT_TAG)
        receiver = self._transport.receiver(received, watched, HEARTBEAT_TAG)
        receiver.start()
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
                last_beat, is_watching = now, bool(received[0])
                if is_watching:
                    receiver.start()
            elif is_watching and (missing := now - last_beat) > self._limit_seconds:
                is_patient = self._process is not None and not is_idle(self._process)
                if missing < STARVED_LIMITS * self._limit_seconds and is_patient:
                    continue
                self._fail(f"rank {watched} of {size} has not responded for {self._limit_seconds} seconds")

    def watch(self, processes: Sequence[int]) -> None:
        """Takes the numbers of the processes, by rank, in order to see what the watched one does on this host."""
        hosts, process = self._transport.hosts, processes[self._watched]
        if hosts[self._watched] == hosts[self._transport.rank] and thread_states(process):
            self._process = process

    def stop(self) -> None:
        """Sends the last heartbeat, and waits for that of the watched rank."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()


def is_idle(process: int) -> bool:
    """Whether a process of this host has not ended, and none of its threads could run or waits for a disk."""
    states = thread_states(process)
    return bool(states) and not states & {"R", "D"} and states != {"Z"}


def thread_states(process: int) -> set[str]:
    """Returns the states of the threads of a process, such as "R" for a running one and "Z" for one that has ended.
    Empty for an unknown process, and where the system has no /proc."""
    states = set()
    for path in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):  # the thread ends meanwhile
            states.add(path.read_text().rpartition(") ")[2][:1])
    return states

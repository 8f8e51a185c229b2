"""The lock of a context, and a number by which calls that take no lock know whether they may go on."""

from __future__ import annotations

import threading

from ocannl.backend.api import Number

HELD = -1


class ContextLock:
    """Whoever holds it is alone with the arrays, and alone changes their `state`. `open` tells that while nobody holds
    it, and else `HELD`."""

    __slots__ = ("_depth", "_lock", "open", "state")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self.state = 0  # changes whenever an array comes to hold a value or ceases to
        self.open = Number(0)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        self.open.value = HELD

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.open.value = self.state
        self._lock.release()

"""The lock of a context, with an epoch counter that validates lock-free calls."""

from __future__ import annotations

import threading

from ocannl.backend.api import SharedInt64

LOCKED = -1


class ContextLock:
    """A reentrant lock that guards the arrays of a context and their `epoch`. `epoch_if_free` equals `epoch` while the
    lock is free, and `LOCKED` otherwise."""

    __slots__ = ("_depth", "_lock", "epoch", "epoch_if_free")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self.epoch = 0  # changes whenever the validity of an array changes
        self.epoch_if_free = SharedInt64(0)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        self.epoch_if_free.value = LOCKED

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.epoch_if_free.value = self.epoch
        self._lock.release()

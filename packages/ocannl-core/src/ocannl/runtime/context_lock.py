"""The lock of a context, with an epoch counter that validates lock-free calls."""

from __future__ import annotations

import threading
import weakref

from ocannl.backend.api import SharedInt64
from ocannl.base.interrupts import repair_after_interrupt

LOCKED = -1


class ContextLock:
    """A reentrant lock that guards the arrays of a context and their `epoch`. `epoch_if_free` equals `epoch` while the
    lock is free, and `LOCKED` otherwise."""

    __slots__ = ("__weakref__", "_depth", "_lock", "epoch", "epoch_if_free")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)
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

    def release_leaked(self) -> None:
        """Releases the lock if the calling thread holds it, however often."""
        if self._lock._is_owned():  # type: ignore[attr-defined]
            self._depth = 0
            self.epoch_if_free.value = self.epoch
            self._lock._release_save()  # type: ignore[attr-defined]


_locks: weakref.WeakSet[ContextLock] = weakref.WeakSet()


@repair_after_interrupt
def _release_leaked() -> None:
    """Releases the locks of the thread that an interrupt has stopped between acquiring or releasing and counting."""
    for lock in list(_locks):
        lock.release_leaked()

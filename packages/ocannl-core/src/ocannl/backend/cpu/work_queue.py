"""A line of work for a thread of its own: first in, first out, until something fails.

What queues of every kind share that do not do their work in the thread that asks for it.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ocannl.backend.cpu.stack_threads import start
from ocannl.base.errors import BackendError

LIMIT = 4096  # pieces of work that wait; submitting more waits for room
Work = Callable[[], object]


class Cancellable(Protocol):
    """What work looks at that can leave early."""

    cancelled: bool


class Point:
    """Implements `Event`: a place in a line, passed when the thread has come to it and done what `reach` says there."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: BaseException | None = None

    def reach(self) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()

    def is_done(self) -> bool:
        return self.done.is_set() and self.error is None

    def synchronize(self) -> None:
        self.done.wait()
        if self.error is not None:
            raise BackendError(f"work that this waits for has failed: {self.error}") from self.error


class WorkQueue:
    """What a queue shares with its thread, which ends with the queue."""

    def __init__(self, control: Cancellable) -> None:
        self._control = control
        self._reset()
        _lines.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Work | Point] = deque()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._running = False
        self._ended = False

    def put(self, item: Work | Point) -> None:
        """Work is refused when something before it has failed; a point is not."""
        with self._changed:
            if not isinstance(item, Point):
                self._raise_broken()
            while len(self._waiting) >= LIMIT:
                self._changed.wait()
            self._waiting.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ocannl queue", daemon=True)
                start(self._thread)
            self._changed.notify_all()

    def refuse_broken(self) -> None:
        with self._changed:
            self._raise_broken()

    def _raise_broken(self) -> None:
        """Once it has been told, the queue takes work again."""
        if self._broken is not None:
            broken, self._broken = self._broken, None
            raise broken

    def cancel(self) -> None:
        with self._changed:
            self._control.cancelled = True
            self._drop(BackendError("cancelled"))
            while self._running:
                self._changed.wait()
            self._control.cancelled = False
            self._broken = None

    def _drop(self, error: BaseException) -> None:
        for item in self._waiting:
            if isinstance(item, Point):
                item.fail(error)
        self._waiting.clear()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._running = False
                self._changed.notify_all()
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if not self._waiting:
                    return
                item = self._waiting.popleft()
                self._running = not isinstance(item, Point)  # who has waited for a point may fork at once
            try:
                if isinstance(item, Point):
                    item.reach()
                    item.done.set()
                elif item():
                    raise BackendError("cancelled")
            except BaseException as error:
                if isinstance(item, Point):
                    item.fail(error)
                with self._changed:
                    self._broken = error
                    self._drop(error)
            del item  # what it holds is free while the thread waits

    def after_fork(self) -> None:
        """The thread is not in the child, and what it was to do is lost there."""
        lost, broken = bool(self._waiting) or self._running, self._broken
        self._reset()
        self._control.cancelled = False
        self._broken = BackendError("this process was forked while work waited in a queue") if lost else broken


_lines: weakref.WeakSet[WorkQueue] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """What still runs is cancelled: its code is about to leave memory."""
    for line in list(_lines):
        line.cancel()


def _after_fork() -> None:
    for line in list(_lines):
        line.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

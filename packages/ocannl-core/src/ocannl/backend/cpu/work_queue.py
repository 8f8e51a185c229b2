"""A FIFO work queue with a worker thread, the common part of all asynchronous queues."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ocannl.backend.cpu.stack_threads import start_thread
from ocannl.base.errors import BackendError
from ocannl.base.forks import after_fork_in_child

MAX_PENDING = 4096  # submitting more work blocks
Work = Callable[[], object]


class Cancellable(Protocol):
    """The flag that running work polls for cancellation."""

    cancelled: bool


class QueueEvent:
    """Implements `Event`: completes when the worker thread has reached it and executed `reach`."""

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
            raise BackendError(f"a dependency of this work failed: {self.error}") from self.error


class WorkQueue:
    """The state shared by a queue and its worker thread, which ends with the queue."""

    def __init__(self, control: Cancellable) -> None:
        self._control = control
        self._reset()
        _queues.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Work | QueueEvent] = deque()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._running = False
        self._ended = False

    def put(self, item: Work | QueueEvent) -> None:
        """Appends an item; raises if earlier work has failed, unless the item is an event."""
        with self._changed:
            if not isinstance(item, QueueEvent):
                self._raise_broken()
            while len(self._waiting) >= MAX_PENDING:
                self._changed.wait()
            self._waiting.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ocannl queue", daemon=True)
                start_thread(self._thread)
            self._changed.notify_all()

    def refuse_broken(self) -> None:
        with self._changed:
            self._raise_broken()

    def _raise_broken(self) -> None:
        """Raises the pending error once; afterwards the queue accepts work again."""
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
            if isinstance(item, QueueEvent):
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
                self._running = not isinstance(item, QueueEvent)  # a thread woken by an event may fork at once
            try:
                if isinstance(item, QueueEvent):
                    item.reach()
                    item.done.set()
                elif item():
                    raise BackendError("cancelled")
            except BaseException as error:  # later calls raise it in the thread of the user
                if isinstance(item, QueueEvent):
                    item.fail(error)
                with self._changed:
                    self._broken = error
                    self._drop(error)
            del item  # releases its references while the thread waits

    def after_fork(self) -> None:
        """Resets the queue: a child process has neither the worker thread nor its pending work."""
        lost, broken = bool(self._waiting) or self._running, self._broken
        self._reset()
        self._control.cancelled = False
        self._broken = BackendError("this process was forked while work was queued") if lost else broken


_queues: weakref.WeakSet[WorkQueue] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Cancels running work before its code is unloaded."""
    for queue in list(_queues):
        queue.cancel()


@after_fork_in_child
def _after_fork() -> None:
    for queue in list(_queues):
        queue.after_fork()

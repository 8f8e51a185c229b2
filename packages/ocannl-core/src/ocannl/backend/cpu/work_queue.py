"""A FIFO work queue with a worker thread, the common part of all asynchronous queues.

An interrupt (Ctrl-C) may stop the main thread between any two instructions of Python. It therefore acquires locks of
the interpreter only, whose `with` statements are safe; `threading.Event` and the `with` statement of
`threading.Condition` are not.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ocannl.backend.cpu.stack_threads import start_thread
from ocannl.base.errors import BackendError
from ocannl.base.forks import after_fork_in_child

MAX_PENDING = 4096  # submitting more work blocks
POLL_SECONDS = 0.0005
Work = Callable[[], object]


class Cancellable(Protocol):
    """The flag that running work polls for cancellation."""

    cancelled: bool


class QueueEvent:
    """Implements `FallibleEvent`: completes when the worker thread has reached it and executed `reach`."""

    __slots__ = ("_pending", "error")

    def __init__(self) -> None:
        self._pending = threading.Lock()  # held until the event completes
        self._pending.acquire()
        self.error: BaseException | None = None

    def reach(self) -> None:
        pass

    def complete(self, error: BaseException | None = None) -> None:
        """Completes the event, with an error or not; called once."""
        self.error = error
        self._pending.release()

    def is_done(self) -> bool:
        return not self._pending.locked() and self.error is None

    def has_ended(self) -> bool:
        """Whether the event has completed, with an error or not."""
        return not self._pending.locked()

    def wait(self) -> None:
        """Waits until the event has completed."""
        with self._pending:
            pass

    def synchronize(self) -> None:
        self.wait()
        if self.error is not None:
            raise BackendError(f"a dependency of this work failed: {self.error}") from self.error


class WorkQueue:
    """The state shared by a queue and its worker thread, which ends with the queue."""

    def __init__(self, control: Cancellable) -> None:
        self._control = control
        self._reset()
        _queues.add(self)

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # the worker thread waits for it
        self._waiting: deque[Work | QueueEvent] = deque()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._running = False
        self._ended = False

    def put(self, item: Work | QueueEvent) -> None:
        """Appends an item; raises if earlier work has failed, unless the item is an event. Raises `BackendError` if the
        worker thread cannot be started."""
        while len(self._waiting) >= MAX_PENDING:
            time.sleep(POLL_SECONDS)
        with self._lock:
            if not isinstance(item, QueueEvent):
                self._raise_broken()
            if self._thread is None:
                self._start()
            self._waiting.append(item)
            self._changed.notify()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="ocannl queue", daemon=True)
        self._thread = thread
        try:
            start_thread(thread)
        except BaseException as error:
            self._thread = None  # if the thread runs nevertheless, after an interrupt, it ends at once
            if isinstance(error, RuntimeError):
                raise BackendError(f"the thread of a queue cannot be started: {error}; use queue='inline'") from None
            raise

    def refuse_broken(self) -> None:
        with self._lock:
            self._raise_broken()

    def _raise_broken(self) -> None:
        """Raises the pending error once; afterwards the queue accepts work again."""
        if self._broken is not None:
            broken, self._broken = self._broken, None
            raise broken

    def cancel(self) -> None:
        """Drops pending work, and stops running work at its next poll."""
        with self._lock:
            self._control.cancelled = True
            self._drop(BackendError("cancelled"))
        try:
            while self._running:
                time.sleep(POLL_SECONDS)
        finally:
            with self._lock:
                self._control.cancelled = False
                self._broken = None

    def _drop(self, error: BaseException) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, QueueEvent):
                item.complete(error)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            self._changed.notify()

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                self._running = False
                while not self._waiting and not self._ended and self._thread is me:
                    self._changed.wait()
                if not self._waiting or self._thread is not me:
                    return
                item = self._waiting.popleft()
                self._running = not isinstance(item, QueueEvent)  # a thread woken by an event may fork at once
            try:
                if isinstance(item, QueueEvent):
                    item.reach()
                elif item():
                    raise BackendError("cancelled")
            except BaseException as error:  # later calls raise it in the thread of the user
                if isinstance(item, QueueEvent):
                    item.complete(error)
                with self._lock:
                    self._broken = error
                    self._drop(error)
            else:
                if isinstance(item, QueueEvent):
                    item.complete()
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

"""Programs that need more room on the stack than the thread that calls them may have."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from ocannl.backend.cpu.stack_threads import stack_bytes, start
from ocannl.backend.cpu.work_queue import Cancellable

ALWAYS_BYTES = 1 << 16  # that any thread has for local arrays
SPARE_BYTES = 1 << 17  # for whoever calls a program, and what that calls


def with_room(run: Callable[[], object], needed_bytes: int, control: Cancellable) -> Callable[[], object]:
    """The same; where a thread has less room, another one does it meanwhile."""

    def call() -> object:
        return run() if stack_bytes() >= needed_bytes + SPARE_BYTES else _elsewhere(run, control)

    return call if needed_bytes > ALWAYS_BYTES else run


def _elsewhere(run: Callable[[], object], control: Cancellable) -> object:
    result: Future[object] = Future()

    def work() -> None:
        try:
            result.set_result(run())
        except BaseException as error:
            result.set_exception(error)

    start(threading.Thread(target=work, name="ocannl call", daemon=True))
    try:
        return result.result()
    except BaseException:
        if not result.done():  # an interrupt
            control.cancelled = True
            wait([result])
            control.cancelled = False
        raise

"""Stack overflow protection: programs with large stack frames run on a thread with a sufficient stack."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.backend.cpu.stack_threads import call_on_thread, stack_bytes
from ocannl.backend.cpu.work_queue import Cancellable

GUARANTEED_STACK_BYTES = 1 << 16  # available for local arrays in any thread
STACK_RESERVE_BYTES = 1 << 17  # for callers and callees of the program


def with_stack(run: Callable[[], object], needed_bytes: int, control: Cancellable) -> Callable[[], object]:
    """Wraps `run` so that it executes on a new thread if the stack of the calling thread is too small."""

    def call() -> object:
        return run() if stack_bytes() >= needed_bytes + STACK_RESERVE_BYTES else _run_on_new_thread(run, control)

    return call if needed_bytes > GUARANTEED_STACK_BYTES else run


def _run_on_new_thread(run: Callable[[], object], control: Cancellable) -> object:
    interrupted = False

    def cancel() -> None:
        nonlocal interrupted
        interrupted = control.cancelled = True

    try:
        return call_on_thread(run, cancel)
    finally:
        if interrupted:
            control.cancelled = False

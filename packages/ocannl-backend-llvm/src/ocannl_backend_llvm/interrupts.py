"""Calls of LLVM that Ctrl-C does not interrupt.

Python raises KeyboardInterrupt in the main thread, when it enters a function for instance. If that function is one by
which llvmlite releases its lock or disposes of an object, the lock is never released, or the object is disposed of
again later. The main thread therefore leaves all calls of LLVM to other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite.binding import ffi

from ocannl.backend.cpu.stack_threads import ThreadStartError, call_on_thread

Result = TypeVar("Result")


def _holds_lock() -> bool:
    """Whether the calling thread has acquired the lock of llvmlite, as it does around forks: another thread could not,
    and a garbage collection may unload libraries meanwhile."""
    lock: Any = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)
    is_owned = getattr(lock, "_is_owned", None)
    return is_owned is not None and bool(is_owned())


def not_interrupted(function: Callable[[], Result], on_interrupt: Callable[[], object] = lambda: None) -> Result:
    """Calls a function, on a thread of its own if the caller is the main thread, and returns its result. After Ctrl-C,
    `on_interrupt` is called and KeyboardInterrupt is raised when the function has returned."""
    main = threading.main_thread()
    can_wait = main.is_alive() and not _holds_lock()  # no thread can be started at shutdown
    if threading.current_thread() is not main or not can_wait:
        return function()
    try:
        return call_on_thread(function, on_interrupt)
    except ThreadStartError:
        return function()

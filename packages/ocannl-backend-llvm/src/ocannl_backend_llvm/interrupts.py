"""Calls of LLVM that Ctrl-C does not interrupt.

Python raises KeyboardInterrupt in the main thread, when it enters a function for instance. If that function is one by
which llvmlite releases its lock or disposes of an object, the lock is never released, or the object is disposed of
again later. The main thread therefore leaves all calls of LLVM to other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ocannl.backend.cpu.stack_threads import ThreadStartError, call_on_thread

Result = TypeVar("Result")


def not_interrupted(function: Callable[[], Result], on_interrupt: Callable[[], object] = lambda: None) -> Result:
    """Calls a function, on a thread of its own if the caller is the main thread, and returns its result. After Ctrl-C,
    `on_interrupt` is called and KeyboardInterrupt is raised when the function has returned."""
    main = threading.main_thread()
    if threading.current_thread() is not main or not main.is_alive():  # no thread can be started at shutdown
        return function()
    try:
        return call_on_thread(function, on_interrupt)
    except ThreadStartError:
        return function()

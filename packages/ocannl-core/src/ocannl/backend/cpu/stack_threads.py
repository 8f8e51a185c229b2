"""Threads with large stacks for local arrays, and the stack size of the current thread."""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable
from contextvars import copy_context
from ctypes import byref
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from ocannl.base.forks import replace_after_fork
from ocannl.ir.stack_size import THREAD_STACK_BYTES

Result = TypeVar("Result")

_guard = threading.RLock()  # reentrant, since the garbage collector may call finalizers that start threads
replace_after_fork(globals(), "_guard", threading.RLock)
_thread_local = threading.local()


class ThreadStartError(RuntimeError):
    """The system starts no further thread."""


def start_thread(thread: threading.Thread) -> None:
    """Starts a thread with a stack of `THREAD_STACK_BYTES`."""
    _start_with_stack(thread.start)


def _start_with_stack(start: Callable[[], object]) -> None:
    """Calls a function that starts a thread, which gets a stack of `THREAD_STACK_BYTES`."""
    with _guard:
        default_bytes = threading.stack_size(THREAD_STACK_BYTES)
        try:
            start()
        finally:
            threading.stack_size(default_bytes)


def call_on_thread(function: Callable[[], Result], on_interrupt: Callable[[], object] = lambda: None) -> Result:
    """Calls a function on a new thread with a stack of `THREAD_STACK_BYTES`; returns its result, or raises its error.

    Ctrl-C, which Python raises in the main thread only, does not interrupt the function: `on_interrupt` is called, and
    KeyboardInterrupt is raised when the function has returned, or after a second Ctrl-C. Raises `ThreadStartError` if
    no thread can be started.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    running = threading.Lock()
    running.acquire()
    context: Any = copy_context()

    def work() -> None:
        try:
            results.append(context.run(function))
        except BaseException as error:  # the waiting thread raises it
            errors.append(error)
        finally:
            running.release()

    try:  # an interrupt within `Thread.start` could block the new thread
        _start_with_stack(partial(_thread.start_new_thread, work, ()))
    except RuntimeError as error:
        raise ThreadStartError(str(error)) from None
    try:
        with running:
            pass
    except BaseException:
        on_interrupt()
        with running:
            pass
        raise
    if errors:
        raise errors.pop()
    return results.pop()


def stack_bytes() -> int:
    """Returns the stack size of the calling thread; assumed sufficient if the system does not report it."""
    size: int | None = getattr(_thread_local, "bytes", None)
    if size is None:
        is_main = threading.current_thread() is threading.main_thread()
        size = _thread_local.bytes = _main_stack_bytes() if is_main else _thread_stack_bytes()
    return size


def _main_stack_bytes() -> int:
    """Returns the limit to which the main thread's stack can grow."""
    if not find_spec("resource"):
        return THREAD_STACK_BYTES
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return THREAD_STACK_BYTES if soft == resource.RLIM_INFINITY else soft


def _thread_stack_bytes() -> int:
    library, me = ctypes.CDLL(None), ctypes.c_void_p(threading.get_ident())
    if hasattr(library, "pthread_get_stacksize_np"):  # macOS
        library.pthread_get_stacksize_np.restype = ctypes.c_size_t
        return int(library.pthread_get_stacksize_np(me))
    attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()  # larger than `pthread_attr_t` on any system
    if not hasattr(library, "pthread_getattr_np") or library.pthread_getattr_np(me, attributes):
        return THREAD_STACK_BYTES
    library.pthread_attr_getstacksize(attributes, byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value

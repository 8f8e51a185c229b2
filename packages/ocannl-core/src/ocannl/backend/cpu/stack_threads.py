"""Threads with large stacks for local arrays, and the stack size of the current thread."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref
from importlib.util import find_spec

from ocannl.base.forks import replace_after_fork
from ocannl.ir.stack_size import THREAD_STACK_BYTES

_guard = threading.Lock()
replace_after_fork(globals(), "_guard", threading.Lock)
_thread_local = threading.local()


def start_thread(thread: threading.Thread) -> None:
    """Starts a thread with a stack of `THREAD_STACK_BYTES`."""
    with _guard:
        default_bytes = threading.stack_size(THREAD_STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(default_bytes)


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

"""Threads with room on their stacks for local arrays, and how much of it the one has that asks."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import byref
from importlib.util import find_spec

from ocannl.ir.stack import THREAD_BYTES

_guard = threading.Lock()
_here = threading.local()


def start(thread: threading.Thread) -> None:
    """With so much room, whatever is usual."""
    with _guard:
        usual = threading.stack_size(THREAD_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)


def stack_bytes() -> int:
    """Of the stack of this thread, all in all; enough, where nobody can say."""
    found: int | None = getattr(_here, "bytes", None)
    if found is None:
        found = _here.bytes = _limit() if threading.current_thread() is threading.main_thread() else _size()
    return found


def _limit() -> int:
    """Of the first thread, whose stack grows."""
    if not find_spec("resource"):
        return THREAD_BYTES
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return THREAD_BYTES if soft == resource.RLIM_INFINITY else soft


def _size() -> int:
    library, me = ctypes.CDLL(None), ctypes.c_void_p(threading.get_ident())
    if hasattr(library, "pthread_get_stacksize_np"):  # macOS
        library.pthread_get_stacksize_np.restype = ctypes.c_size_t
        return int(library.pthread_get_stacksize_np(me))
    attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()  # more than any system needs
    if not hasattr(library, "pthread_getattr_np") or library.pthread_getattr_np(me, attributes):
        return THREAD_BYTES
    library.pthread_attr_getstacksize(attributes, byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""The thread pool that executes parallel loops: one per process, shared by all CPU backends.

The native functions come from the first backend that links code with parallel loops; idle threads wait in one of them
without the GIL. The layout is part of the ABI (see `codegen.abi`).
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ocannl.backend.cpu.stack_threads import start_thread
from ocannl.base.forks import after_fork_in_child, replace_after_fork

PRIVATE_BYTES = 1024


class ThreadPool(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("parallel_for", ctypes.c_void_p),
        ("private", ctypes.c_uint64 * (PRIVATE_BYTES // 8)),
    )


@dataclass(frozen=True, slots=True)
class ThreadPoolCode:
    """Addresses of the native functions of a thread pool, and the object that keeps them loaded."""

    init: int  # void (struct thread_pool *): initializes a pool whose only thread is the caller
    parallel_for: int
    worker_main: int  # void (struct thread_pool *, int64_t thread): main function of worker `thread`, counted from 1
    stop: int  # void (struct thread_pool *): terminates the workers
    holds: object


_pool = ThreadPool(1, 1)
_code: ThreadPoolCode | None = None
_threads: list[threading.Thread] = []
_guard = threading.Lock()
replace_after_fork(globals(), "_guard", threading.Lock)


def thread_pool(size: int, provide: Callable[[], ThreadPoolCode]) -> int:
    """Returns the address of the pool, grown to at least `size` threads including the caller of routines."""
    global _code
    with _guard:
        if _code is None:
            _code = provide()
            _pool.parallel_for = _code.parallel_for
            _call_with_pool(_code.init)
            atexit.register(_shut_down)
        worker_main = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(_code.worker_main)
        while _pool.size < size:
            arguments = (ctypes.addressof(_pool), _pool.size)
            name = f"ocannl worker {_pool.size}"
            thread = threading.Thread(target=worker_main, args=arguments, name=name, daemon=True)
            start_thread(thread)
            _threads.append(thread)
            _pool.size += 1
        return ctypes.addressof(_pool)


def _call_with_pool(address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(_pool))


def _shut_down() -> None:
    """Terminates the workers before their code is unloaded."""
    with _guard:
        if _code is not None:
            _pool.size = 1
            _call_with_pool(_code.stop)
            for thread in _threads:
                thread.join()
            _threads.clear()


@after_fork_in_child
def _after_fork() -> None:
    """Resets the pool: a child process has no workers until it links a parallel program."""
    _threads.clear()
    if _code is not None:
        _pool.size = 1
        _call_with_pool(_code.init)

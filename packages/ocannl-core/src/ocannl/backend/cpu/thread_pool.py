"""The thread pool that executes parallel loops: one per process, shared by all CPU backends.

The native functions come from the first backend that links code with parallel loops; idle threads wait in one of them
without the GIL. The layout is part of the ABI (see `codegen.abi`).
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ocannl.backend.cpu.device import cores
from ocannl.backend.cpu.stack_threads import start_thread
from ocannl.base.errors import BackendError
from ocannl.base.forks import after_fork_in_child, replace_after_fork

PRIVATE_BYTES = 1024
LINE_BYTES = 64


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


def _aligned_pool() -> ThreadPool:
    """Returns a pool whose only thread is the caller; fields at multiples of a cache line are on lines of their own."""
    memory = ctypes.create_string_buffer(ctypes.sizeof(ThreadPool) + LINE_BYTES)
    pool = ThreadPool.from_buffer(memory, -ctypes.addressof(memory) % LINE_BYTES)
    pool.version = pool.size = 1
    return pool


_pool = _aligned_pool()
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
        if _pool.size < size:
            _start_workers(range(_pool.size, size), _code.worker_main)
            _pool.size = size
        return ctypes.addressof(_pool)


def _start_workers(numbers: range, address: int) -> None:
    """Starts workers; if any cannot be started, none is left. Raises `BackendError`."""
    worker_main = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
    all_started: Future[bool] = Future()
    threads: list[threading.Thread] = []
    try:
        for number in numbers:
            work = partial(_work, worker_main, current_core(), ctypes.addressof(_pool), number)
            name = f"ocannl worker {number}"
            thread = threading.Thread(target=_when_started, args=(all_started, work), name=name, daemon=True)
            start_thread(thread)
            threads.append(thread)
    except BaseException as error:
        all_started.set_result(False)
        if isinstance(error, RuntimeError):
            raise BackendError(
                f"{len(threads)} of {len(numbers)} threads could be started: {error}; decrease the setting `threads`"
            ) from None
        raise
    _threads.extend(threads)
    all_started.set_result(True)


def _when_started(all_started: Future[bool], work: Callable[[], None]) -> None:
    if all_started.result():
        work()


def _work(worker_main: Callable[[int, int], None], callers_core: int | None, pool: int, number: int) -> None:
    """The main function of a worker, which runs on any core but that of the thread that has started it. On a busy
    machine the system would otherwise wake it on the core of the caller, where both take turns."""
    if callers_core is not None and number < cores():
        with suppress(OSError):
            os.sched_setaffinity(0, os.sched_getaffinity(0) - {callers_core})
    worker_main(pool, number)


def current_core() -> int | None:
    """Returns the core that executes the calling thread; None if the system does not tell, or cannot exclude it."""
    function = getattr(ctypes.CDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None
    core = -1 if function is None else int(function())
    return core if core >= 0 else None


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

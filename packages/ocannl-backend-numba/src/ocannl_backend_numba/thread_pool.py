"""The native half of the thread pool: see `ThreadPoolCode` in `ocannl.backend.cpu`, and `ocannl.codegen.abi`.

    parallel_for    publishes a job by incrementing `generation`, executes chunks itself, closes the job, and waits
                    until no worker is active
    worker_main     waits for a new generation, first spinning, then sleeping; increments `active`, and executes
                    chunks if the job is still open, so that late workers leave without touching it
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from numba import cfunc, types

from ocannl.backend.cpu import ThreadPool, ThreadPoolCode
from ocannl_backend_numba.memory import (
    ADDRESS,
    atomic_add,
    atomic_int,
    atomic_word,
    c_function,
    replaces,
    set_atomic_word,
    set_word,
    word,
)
from ocannl_backend_numba.runtime import INT, LONG, OPTIONS, call_chunk, inner

MAX_SPINS = 4000  # polls of a waiting thread before it sleeps
LINE = 64  # bytes of a cache line, which moves between cores as a whole
PRIVATE = ThreadPool.private.offset + LINE - ThreadPool.private.offset % LINE
BUSY = PRIVATE  # fields that are written together are on one line
ACTIVE = PRIVATE + LINE
GENERATION, OPEN, STOPPED, SLEEPERS = range(PRIVATE + 2 * LINE, PRIVATE + 2 * LINE + 32, 8)
TAKEN, CANCELLED = range(PRIVATE + 3 * LINE, PRIVATE + 3 * LINE + 16, 8)
CHUNKS, THREADS, BODY, FRAME = range(PRIVATE + 4 * LINE, PRIVATE + 4 * LINE + 32, 8)
LOCK, WAKEUP = PRIVATE + 5 * LINE, PRIVATE + 7 * LINE
SIZE = ThreadPool.size.offset


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


LOCK_MUTEX, UNLOCK_MUTEX, INIT_MUTEX, INIT_CONDITION, BROADCAST, WAIT, YIELD = map(
    _address,
    (
        "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_init", "pthread_cond_init",
        "pthread_cond_broadcast", "pthread_cond_wait", "sched_yield",
    ),
)  # fmt: skip
plain = c_function(INT())
call_with_object = c_function(INT(ADDRESS))
call_with_objects = c_function(INT(ADDRESS, ADDRESS))


@inner
def wake_workers(pool):
    call_with_object(LOCK_MUTEX, (pool + LOCK,))
    call_with_object(BROADCAST, (pool + WAKEUP,))
    call_with_object(UNLOCK_MUTEX, (pool + LOCK,))


@inner
def run_chunks(pool, thread):
    body, frame, num_chunks = word(pool + BODY), word(pool + FRAME), word(pool + CHUNKS)
    while atomic_word(pool + CANCELLED) == 0:
        number = atomic_add(pool + TAKEN, 1)
        if number >= num_chunks:
            break
        if call_chunk(body, (frame, number, thread)) != 0:
            set_atomic_word(pool + CANCELLED, 1)


@inner
def is_idle(pool, seen):
    return atomic_word(pool + GENERATION) == seen and atomic_word(pool + STOPPED) == 0


def _functions() -> dict[str, Any]:
    @cfunc(types.void(ADDRESS), **OPTIONS)
    def init(pool):
        for position in range(PRIVATE, LOCK, 8):
            set_word(pool + position, 0)
        call_with_objects(INIT_MUTEX, (pool + LOCK, 0))
        call_with_objects(INIT_CONDITION, (pool + WAKEUP, 0))

    @cfunc(types.void(ADDRESS), **OPTIONS)
    def stop(pool):
        set_atomic_word(pool + STOPPED, 1)
        wake_workers(pool)

    @cfunc(INT(ADDRESS, ADDRESS, ADDRESS, LONG, LONG), **OPTIONS)
    def parallel_for(pool, body, frame, num_chunks, threads):
        if atomic_int(pool + SIZE) < 2 or threads < 2 or num_chunks < 2 or not replaces(pool + BUSY, 0, 1):
            for number in range(num_chunks):
                if call_chunk(body, (frame, number, 0)) != 0:
                    return INT(1)
            return INT(0)
        set_word(pool + BODY, body)
        set_word(pool + FRAME, frame)
        set_word(pool + CHUNKS, num_chunks)
        set_word(pool + THREADS, threads)
        set_atomic_word(pool + CANCELLED, 0)
        set_atomic_word(pool + TAKEN, 0)
        generation = word(pool + GENERATION) + 1
        set_atomic_word(pool + OPEN, generation)
        set_atomic_word(pool + GENERATION, generation)
        if atomic_word(pool + SLEEPERS) != 0:
            wake_workers(pool)
        run_chunks(pool, 0)
        set_atomic_word(pool + OPEN, 0)
        spins = 0
        while atomic_word(pool + ACTIVE) != 0:
            spins += 1
            if spins > MAX_SPINS:
                plain(YIELD, ())
        cancelled = atomic_word(pool + CANCELLED)
        set_atomic_word(pool + BUSY, 0)
        return INT(cancelled)

    @cfunc(types.void(ADDRESS, LONG), **OPTIONS)
    def worker_main(pool, thread):
        seen = 0
        while True:
            spins = 0
            while spins < MAX_SPINS and is_idle(pool, seen):
                spins += 1
            if is_idle(pool, seen):
                call_with_object(LOCK_MUTEX, (pool + LOCK,))
                atomic_add(pool + SLEEPERS, 1)
                while is_idle(pool, seen):
                    call_with_objects(WAIT, (pool + WAKEUP, pool + LOCK))
                atomic_add(pool + SLEEPERS, -1)
                call_with_object(UNLOCK_MUTEX, (pool + LOCK,))
            if atomic_word(pool + STOPPED) != 0:
                break
            seen = atomic_word(pool + GENERATION)
            atomic_add(pool + ACTIVE, 1)
            if atomic_word(pool + OPEN) == seen and thread < word(pool + THREADS):
                run_chunks(pool, thread)
            atomic_add(pool + ACTIVE, -1)

    return {"init": init, "parallel_for": parallel_for, "worker_main": worker_main, "stop": stop}


@cache
def thread_pool_code() -> ThreadPoolCode:
    functions = _functions()
    return ThreadPoolCode(**{name: function.address for name, function in functions.items()}, holds=functions)

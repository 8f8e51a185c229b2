"""What compiled programs do through their control block: release the GIL, poll, read the clock, run parallel loops.

See `ocannl.codegen.abi`. The functions of a program have these signatures, in the terms of Numba:

    nest(addresses, symbols, control, first, limit) -> cancelled        one loop nest
    chunk(frame, number, thread) -> cancelled                           a chunk of a parallel loop
    entry(addresses, symbols, control) -> cancelled                     the program
"""

from __future__ import annotations

from typing import Any

from numba import cfunc, njit, types

from ocannl.backend.cpu import Control, ThreadPool
from ocannl.codegen import SIGNAL_CHECK_INTERVAL_NS
from ocannl_backend_numba.memory import ADDRESS, atomic_int, c_function, on_stack, set_word, word

INT, LONG = types.int32, types.int64
OPTIONS = {"error_model": "numpy"}  # a division by zero raises nothing
NEST = INT(ADDRESS, ADDRESS, ADDRESS, LONG, LONG)
CHUNK = INT(ADDRESS, LONG, LONG)
ENTRY = INT(ADDRESS, ADDRESS, ADDRESS)

CANCEL, RELEASE, ACQUIRE, ENSURE, RESTORE, SIGNALS, CLOCK, CHECKED, POOL, THREADS, WITHOUT_SIGNALS = (
    getattr(Control, name).offset
    for name in (
        "cancel", "release", "acquire", "ensure", "restore", "signals", "clock", "signals_checked_ns", "pool",
        "threads", "without_signals",
    )
)  # fmt: skip
CLOCK_ID, PARALLEL_FOR = Control.clock_id.offset, ThreadPool.parallel_for.offset
call_release = c_function(ADDRESS())
call_acquire = c_function(types.void(ADDRESS))
call_ensure = c_function(INT())
call_restore = c_function(types.void(INT))
call_clock = c_function(INT(INT, ADDRESS))
call_chunk = c_function(CHUNK)
call_parallel_for = c_function(INT(ADDRESS, ADDRESS, ADDRESS, LONG, LONG))

inner = njit(**OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
nest = njit(NEST, **OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
entry = cfunc(ENTRY, **OPTIONS)


@inner
def release_gil(control):
    return call_release(word(control + RELEASE), ())


@inner
def acquire_gil(control, thread):
    call_acquire(word(control + ACQUIRE), (thread,))


@inner
def read_clock(control):
    """The time in nanoseconds; 0 where the platform has no such clock."""
    if word(control + CLOCK) == 0:
        return 0
    time = on_stack(16)
    call_clock(word(control + CLOCK), (INT(atomic_int(control + CLOCK_ID)), time))
    return word(time) * 1_000_000_000 + word(time + 8)


@inner
def poll(control):
    """Whether the program was cancelled, or a signal has raised an exception."""
    if atomic_int(word(control + CANCEL)) != 0:
        return INT(1)
    if word(control + SIGNALS) == 0:
        return INT(0)
    now = read_clock(control)
    if now - word(control + CHECKED) < SIGNAL_CHECK_INTERVAL_NS:
        return INT(0)
    set_word(control + CHECKED, now)
    state = call_ensure(word(control + ENSURE), ())
    raised = call_ensure(word(control + SIGNALS), ())
    call_restore(word(control + RESTORE), (state,))
    return raised


def chunk(body: Any, loop_first: int, loop_limit: int, size: int, poll_interval: int) -> Any:
    """The function that runs chunks of the parallel loop of a nest, for the iterations `loop_first` to `loop_limit`."""

    @cfunc(CHUNK, **OPTIONS)
    def run(frame, number, thread):
        control = word(frame + 16)
        if thread != 0:
            control = word(control + WITHOUT_SIGNALS)
        if number % poll_interval == poll_interval - 1 and poll(control) != 0:
            return INT(1)
        first = number * size + loop_first
        return body(word(frame), word(frame + 8), control, first, min(first + size, loop_limit))

    return run


@inner
def parallel_for(control, body, addresses, symbols, num_chunks):
    """Runs all chunks, with the threads of the pool if there is one. `body` is the address of the chunk function."""
    frame = on_stack(24)
    set_word(frame, addresses)
    set_word(frame + 8, symbols)
    set_word(frame + 16, control)
    pool = word(control + POOL)
    if pool != 0:
        arguments = (pool, body, frame, num_chunks, word(control + THREADS))
        return call_parallel_for(word(pool + PARALLEL_FOR), arguments)
    for number in range(num_chunks):
        if call_chunk(body, (frame, number, 0)) != 0:
            return INT(1)
    return INT(0)


NAMES: dict[str, object] = {
    "nest": nest, "chunk": chunk, "entry": entry, "release_gil": release_gil, "acquire_gil": acquire_gil,
    "read_clock": read_clock, "poll": poll, "parallel_for": parallel_for, "word": word, "on_stack": on_stack,
}  # fmt: skip

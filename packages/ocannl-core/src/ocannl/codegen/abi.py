"""Calling convention (ABI) of compiled programs, shared by every backend that compiles for the CPU.

    int NAME(void *addresses[], int64_t symbols[], struct control *control)

`addresses` holds the address of each buffer of `Proc.bufs` outside the arena, followed by that of the arena, if any;
`symbols` holds the values of the static symbols. The calling thread holds the GIL and has `stack_bytes` of stack left
for local arrays. A program releases the GIL while it runs unless `holds_gil`. A poll makes it return a nonzero value
if `*cancel` has been set or if a signal (Ctrl-C) has raised a Python exception, which is then pending; signals are
checked at most once per `SIGNAL_CHECK_INTERVAL_NS`.

    struct control {
        int32_t version;                    // 2; later versions only add fields
        int32_t clock_id;
        volatile int32_t *cancel;
        void *(*release)(void);             // PyEval_SaveThread: releases the GIL
        void (*acquire)(void *);            // PyEval_RestoreThread: acquires the GIL again
        int (*ensure)(void);                // PyGILState_Ensure: acquires the GIL temporarily
        void (*restore)(int);               // PyGILState_Release
        int (*signals)(void);               // PyErr_CheckSignals; null on threads that handle no signals
        int (*clock)(int, int64_t[2]);      // clock_gettime: seconds and nanoseconds of clock `clock_id`
        int64_t signals_checked_ns;         // time of the last signal check
        struct thread_pool *pool;           // the thread pool of this process; null if there is none
        int64_t threads;                    // maximum number of threads for this program, including the caller
        struct control *without_signals;    // control of the pool's worker threads: a copy without `signals`
        char *private_arrays;               // 524288 bytes for each thread; null if no program needs them
        int64_t filled;                     // the number of times that threads have had to fill private arrays
    };

Parallel loops (`Nest.parallel_loop`) run on the thread pool, if there is one:

    struct thread_pool {
        int32_t version, size;              // version 1; number of threads, including the caller
        int32_t (*parallel_for)(struct thread_pool *, int32_t (*body)(void *frame, int64_t chunk, int64_t thread),
                                void *frame, int64_t num_chunks, int64_t threads);
        ...                                 // private
    };

`parallel_for` calls `body(frame, chunk, thread)` exactly once for every chunk in [0, `num_chunks`), on at most
`threads` threads (the caller is thread 0), and returns after the last call. If a call returns nonzero, no further chunk
is started and the result is 1. If the pool is busy, the caller executes all chunks itself. Worker threads never acquire
the GIL, so a program that holds it can use the pool without deadlock.

A parallel loop with private arrays (see `ir.private_scope`) increments `filled` before it begins. The memory of a
thread begins with a cache line that holds the value of `filled` for which it has filled its arrays. With another value,
the thread fills them before it executes a chunk.

Programs that hold the GIL also have a vectorcall entry point, through which Python calls them without ctypes:

    PyObject *direct(PyObject *self, PyObject *const *args, Py_ssize_t positional, PyObject *names)

`self` is a tuple of the address of a frame and a fallback callable. `direct` calls the program if
`*epoch == *checked_epoch` and the arguments are the symbols, by keyword and in order, each an `int` within its bounds;
otherwise it forwards the arguments to the fallback.

    struct frame {
        int32_t (*program)(void **, int64_t *, struct control *);
        void **addresses;
        struct control *control;
        int64_t *epoch, *checked_epoch;     // current epoch, and the epoch at which the entry was validated
        int64_t count;
        struct { PyObject *name; int64_t lo, hi; } *ranges;
    };
"""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.loops import AccessMode, Buf, For, MemorySpace, Poll, Proc
from ocannl.ir.name_mangling import identifier
from ocannl.ir.private_scope import outermost, private_scope
from ocannl.ir.stack_size import stack_bytes
from ocannl.ir.walk import walk
from ocannl.ir.work import work


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """The memory of one address argument."""

    name: str
    nbytes: int
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The name, arguments and threading behaviour of a compiled program; `symbols` counts the static symbols."""

    name: str
    regions: tuple[MemoryRegion, ...]
    symbols: int
    is_parallel: bool  # contains parallel loops
    holds_gil: bool
    stack_bytes: int  # of local arrays
    has_private_arrays: bool = False  # threads fill arrays of their own


SIGNAL_CHECK_INTERVAL_NS = 20_000_000
MAX_GIL_HOLD_OPS = 1_200_000  # takes less than 5 ms, Python's default switch interval, on any supported CPU
READ_ONLY = (AccessMode.IN, AccessMode.CONST, AccessMode.MERGE)


def pool_bufs(proc: Proc) -> tuple[Buf, ...]:
    """The buffers that are passed by separate addresses."""
    return tuple(buf for buf in proc.bufs if buf.space is MemorySpace.GLOBAL)


def holds_gil(proc: Proc) -> bool:
    """Whether the program runs without releasing the GIL: it is short and contains no poll."""
    has_poll = any(isinstance(node, Poll) for node in walk(proc.body))
    return not has_poll and work(proc.body) <= MAX_GIL_HOLD_OPS


def _has_parallel_loops(proc: Proc) -> bool:
    return any(isinstance(stmt, For) and stmt.parallel_chunk for stmt in outermost(proc.body))


def _has_private_arrays(proc: Proc) -> bool:
    return any(private_scope(stmt) is not None for stmt in outermost(proc.body))


def signature(proc: Proc) -> Signature:
    """The calling convention of the compiled program."""
    regions = [MemoryRegion(identifier(b.name), b.nbytes, b.access not in READ_ONLY) for b in pool_bufs(proc)]
    if proc.arena:
        regions.append(MemoryRegion("arena", proc.arena, True))
    return Signature(
        proc.name, tuple(regions), len(proc.syms), _has_parallel_loops(proc), holds_gil(proc), stack_bytes(proc),
        _has_private_arrays(proc),
    )

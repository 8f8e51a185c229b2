"""What a compiled program is called with: the same convention for every backend that compiles for the processor.

    int NAME(void *addresses[], int64_t symbols[], struct control *control)

`addresses` holds one address for each pool buffer, in the order of `Proc.bufs`, then that of the arena if there is one;
`symbols` the values of the static symbols. A program is called by a thread that holds Python's interpreter lock and has
`stack_bytes` left for local arrays. One that is not `brief` lets other threads run Python meanwhile. At a poll it
leaves, and gives something other than 0, when somebody has set `*cancel`, or a signal (Ctrl-C) has raised a Python
exception, which is then set: a poll asks for signals if none has for `PATIENCE_NS`.

    struct control {
        int32_t version;                    // 1; later ones only add fields
        int32_t clock_id;
        volatile int32_t *cancel;
        void *(*release)(void);             // PyEval_SaveThread: gives the lock back
        void (*acquire)(void *);            // PyEval_RestoreThread: takes it again
        int (*ensure)(void);                // PyGILState_Ensure: takes it for a moment
        void (*restore)(int);               // PyGILState_Release
        int (*signals)(void);               // PyErr_CheckSignals; null on threads that handle none
        int (*clock)(int, int64_t[2]);      // clock_gettime: seconds and nanoseconds of clock `clock_id`
        int64_t asked_ns;                   // when signals were asked for
        struct team *team;                  // the threads of this process; null when there are none
        int64_t threads;                    // how many may work for this program, the caller included
        struct control *deaf;               // for the other threads of the team: the same, but without signals
    };

Loops that threads share (`Nest.claim`) are handed to the team, if there is one:

    struct team {
        int32_t version, size;              // version 1; threads there are, the caller included
        int32_t (*share)(struct team *, int32_t (*body)(void *frame, int64_t claim, int64_t thread), void *frame,
                         int64_t claims, int64_t threads);
        ...                                 // private
    };

`share` calls `body(frame, n, thread)` for every n below `claims`, each once, on up to so many threads, the caller being
number 0, and comes back when all are done; it gives 1 as soon as one of them does, and begins no more then. A team that
is busy for somebody else leaves the caller to do it alone. Threads of the team never ask for the lock of Python, so
that a brief program may keep it.

Brief programs are also called by Python itself, through one function that comes with them:

    PyObject *direct(PyObject *self, PyObject *const *args, Py_ssize_t positional, PyObject *names)

`self` is a tuple, the first of whose elements is the address of a frame and the second something to call. If all is
plain, `direct` calls the program, and else, with what it was given, that something. It is plain as long as the two
numbers of the frame agree and each symbol is given by its name, in order, as an `int` within its bounds.

    struct frame {
        int32_t (*program)(void **, int64_t *, struct control *);
        void **addresses;
        struct control *control;
        int64_t *state, *seen;              // the two numbers
        int64_t count;
        struct { PyObject *name; int64_t lo, hi; } *given;
    };
"""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.loops import Access, Buf, For, Home, Poll, Proc
from ocannl.ir.names import identifier
from ocannl.ir.stack import stack_bytes
from ocannl.ir.walk import walk
from ocannl.ir.work import work


@dataclass(frozen=True, slots=True)
class Region:
    """The memory behind one address."""

    name: str
    nbytes: int
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a program, the memory it is given, its static symbols, and what becomes of Python meanwhile."""

    name: str
    regions: tuple[Region, ...]
    symbols: int
    shares: bool  # it has loops that threads share
    brief: bool
    stack_bytes: int  # for its local arrays


PATIENCE_NS = 20_000_000
BRIEF = 1_200_000  # of work: less than the 5 ms for which a thread leaves Python's lock to another, whatever it is
READ_ONLY = (Access.IN, Access.CONST, Access.MERGE)


def pool_bufs(proc: Proc) -> tuple[Buf, ...]:
    """The buffers that are given an address of their own."""
    return tuple(buf for buf in proc.bufs if buf.home is Home.POOL)


def brief(proc: Proc) -> bool:
    """Whether a program keeps Python's lock, so that nothing comes between its beginning and its end. It has so little
    to do that nobody looks whether to leave, not even between claims."""
    if work(proc.body) > BRIEF:
        return False
    return not any(isinstance(node, Poll) for node in walk(proc.body))


def _shares(proc: Proc) -> bool:
    return any(isinstance(stmt, For) and stmt.claimed for stmt in proc.body)


def signature(proc: Proc) -> Signature:
    regions = [Region(identifier(b.name), b.nbytes, b.access not in READ_ONLY) for b in pool_bufs(proc)]
    if proc.arena:
        regions.append(Region("arena", proc.arena, True))
    return Signature(proc.name, tuple(regions), len(proc.syms), _shares(proc), brief(proc), stack_bytes(proc))

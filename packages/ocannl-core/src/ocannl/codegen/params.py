"""What a compiled program is called with: the same convention for every backend that compiles for the processor.

    int NAME(void *addresses[], int64_t symbols[], struct control *control)

`addresses` holds one address for each pool buffer, in the order of `Proc.bufs`, then that of the arena if there is one;
`symbols` the values of the static symbols. A program is called by a thread that holds Python's interpreter lock. One with
more work than `UNLOCKED` lets other threads run Python meanwhile. At a poll it leaves, and gives something other than 0,
when somebody has set `cancel`, or a signal (Ctrl-C) has raised a Python exception, which is then set.

    struct control {
        int32_t cancel, version;            // version 1; later ones only add fields
        void *(*release)(void);             // PyEval_SaveThread: gives the lock back
        void (*acquire)(void *);            // PyEval_RestoreThread: takes it again
        int (*ensure)(void);                // PyGILState_Ensure: takes it for a moment
        void (*restore)(int);               // PyGILState_Release
        int (*signals)(void);               // PyErr_CheckSignals; null on threads that handle none
    };
"""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.loops import Access, Buf, Home, Proc
from ocannl.ir.names import identifier


@dataclass(frozen=True, slots=True)
class Region:
    """The memory behind one address."""

    name: str
    nbytes: int
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of a program, the memory it is given, and how many static symbols."""

    name: str
    regions: tuple[Region, ...]
    symbols: int


UNLOCKED = 20_000  # of work: what is done sooner than a lock changes hands keeps it
READ_ONLY = (Access.IN, Access.CONST, Access.MERGE)


def pool_bufs(proc: Proc) -> tuple[Buf, ...]:
    """The buffers that are given an address of their own."""
    return tuple(buf for buf in proc.bufs if buf.home is Home.POOL)


def signature(proc: Proc) -> Signature:
    regions = [Region(identifier(b.name), b.nbytes, b.access not in READ_ONLY) for b in pool_bufs(proc)]
    if proc.arena:
        regions.append(Region("arena", proc.arena, True))
    return Signature(proc.name, tuple(regions), len(proc.syms))

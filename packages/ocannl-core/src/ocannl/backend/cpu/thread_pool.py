"""The threads of this process that compiled code shares loops with: one team, whatever backends there are.

The first backend that links code with loops to share gives the native functions; its threads wait in one of them, and
hold nothing of Python meanwhile. The layout is part of the interface: see `codegen.params`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ocannl.backend.cpu.stack_threads import start

PRIVATE_BYTES = 1024


class ThreadPool(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("share", ctypes.c_void_p),
        ("private", ctypes.c_uint64 * (PRIVATE_BYTES // 8)),
    )


@dataclass(frozen=True, slots=True)
class TeamCode:
    """Addresses of a team's functions, and what keeps them where they are."""

    start: int  # void (struct team *): makes a team whose only thread is the caller
    share: int
    work: int  # void (struct team *, int64_t thread): a thread's life, from 1 on
    stop: int  # void (struct team *): ends these lives
    holds: object


_team = ThreadPool(1, 1)
_code: TeamCode | None = None
_threads: list[threading.Thread] = []
_guard = threading.Lock()


def team(size: int, provide: Callable[[], TeamCode]) -> int:
    """The address of the team, which has so many threads at least, the caller of routines included."""
    global _code
    with _guard:
        if _code is None:
            _code = provide()
            _team.share = _code.share
            _of_team(_code.start)
            atexit.register(_end)
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(_code.work)
        while _team.size < size:
            arguments = (ctypes.addressof(_team), _team.size)
            thread = threading.Thread(target=work, args=arguments, name=f"ocannl team {_team.size}", daemon=True)
            start(thread)
            _threads.append(thread)
            _team.size += 1
        return ctypes.addressof(_team)


def _of_team(address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(_team))


def _end() -> None:
    """No thread may run code that is about to leave memory."""
    with _guard:
        if _code is not None:
            _team.size = 1
            _of_team(_code.stop)
            for thread in _threads:
                thread.join()
            _threads.clear()


def _after_fork() -> None:
    """The threads are not in the child; routines run alone until a context there links new ones."""
    global _guard
    _guard = threading.Lock()
    _threads.clear()
    if _code is not None:
        _team.size = 1
        _of_team(_code.start)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Pauses the cyclic garbage collector during compilation, which allocates much and creates no garbage cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ocannl.base.forks import after_fork_in_child

_is_paused = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context manager that disables cyclic garbage collection, which would only traverse live objects."""
    global _is_paused
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _is_paused = True
    try:
        yield
    finally:
        _is_paused = False
        gc.enable()


@after_fork_in_child
def _after_fork() -> None:
    """Re-enables collection: in a child process, the thread that paused it does not exist."""
    if _is_paused:
        gc.enable()

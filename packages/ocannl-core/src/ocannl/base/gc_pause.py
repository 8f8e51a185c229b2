"""Pauses the cyclic garbage collector while code is recorded or compiled, which allocates much and creates no garbage
cycles."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ocannl.base.forks import after_fork_in_child

P = ParamSpec("P")
T = TypeVar("T")
_is_paused = False


def gc_paused(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator that disables cyclic garbage collection during calls: it would only traverse live objects.

    It is not a context manager: Python can raise KeyboardInterrupt when it enters `__exit__`, but not between the
    beginning of a `finally` clause and its first call.
    """

    @wraps(function)
    def paused(*args: P.args, **kwargs: P.kwargs) -> T:
        global _is_paused
        if not gc.isenabled():
            return function(*args, **kwargs)
        try:
            _is_paused = True
            gc.disable()
            return function(*args, **kwargs)
        finally:
            gc.enable()
            _is_paused = False

    return paused


@after_fork_in_child
def _after_fork() -> None:
    """Re-enables collection: in a child process, the thread that paused it does not exist."""
    if _is_paused:
        gc.enable()

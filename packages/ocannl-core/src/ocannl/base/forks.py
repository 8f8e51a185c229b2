"""Fork safety: locks and states of threads that do not exist in the child process of a fork.

All functions have no effect on systems without `fork`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Reset = TypeVar("Reset", bound=Callable[[], None])


def after_fork_in_child(reset: Reset) -> Reset:
    """Registers a function that every child process calls first; usable as a decorator."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    return reset


def replace_after_fork(namespace: dict[str, Any], name: str, create: Callable[[], object]) -> None:
    """Replaces a global variable of a module, such as a lock, in every child process: the thread that may have held the
    lock in the parent does not exist in the child, and would never release it."""
    assert name in namespace

    @after_fork_in_child
    def replace() -> None:
        namespace[name] = create()


def hold_during_fork(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Lets every fork wait for a lock, and release it afterwards in both processes."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


import_lock = threading.RLock()
"""Held during late imports, and by `fork`: a child process would deadlock on import locks held by other threads."""

hold_during_fork(import_lock.acquire, import_lock.release)

"""Fork safety: locks and states of threads that do not exist in the child process of a fork.

All functions have no effect on systems without `fork`.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
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
    _held_locks.append((acquire, release))


_held_locks: list[tuple[Callable[[], object], Callable[[], object]]] = []
_releases: list[Callable[[], object]] = []  # of the locks that the current fork has acquired

import_lock = threading.RLock()
"""Held during late imports, and by `fork`: a child process would deadlock on import locks held by other threads."""


def _before_fork() -> None:
    """Acquires `import_lock` first: meanwhile, an import in another thread may add further locks."""
    import_lock.acquire()
    _wait_for_imports()
    acquired: list[Callable[[], object]] = [import_lock.release]
    for acquire, release in list(_held_locks):
        acquire()
        acquired.append(release)
    _releases.extend(acquired)


def _after_fork() -> None:
    while _releases:
        _releases.pop()()


def _wait_for_imports() -> None:
    """Waits until no other thread imports a module, or waits for a module that this thread is importing: in the child,
    the lock of the module would be held for ever by a thread that does not exist."""
    me, end = threading.get_ident(), time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < end:
        owners = {getattr(lock(), "owner", None) for lock in list(_module_locks.values())}
        if owners <= {None, me} or me in owners:
            return
        time.sleep(POLL_SECONDS)


MAX_WAIT_SECONDS = 30.0
POLL_SECONDS = 0.001
_module_locks: dict[str, Callable[[], object]] = getattr(importlib._bootstrap, "_module_locks", {})

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

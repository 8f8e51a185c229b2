"""Whether asking a plugin takes the process with it: found out in another process, before this one imports it.

That a plugin answers is remembered on disk until what is installed changes; one that crashes or hangs is tried again by
the next process, which tells its user so.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from ocannl.backend.installed import GROUP, Candidate
from ocannl.backend.sandbox import trials
from ocannl.base.config import CACHE, CACHE_DIR, user_cache_folder
from ocannl.base.errors import BackendError
from ocannl.base.log import logger

LIMIT_SECONDS = 5.0
ANSWERED = 42  # the status of a process that came to its end: a plugin can end one before, with any other
_log = logger("backend.vet")
_lock = threading.Lock()
_harm: dict[Candidate, str | None] = {}  # what this process knows


def harm(candidates: Iterable[Candidate]) -> dict[Candidate, str]:
    """Those that must not be asked here, and what asking them does."""
    wanted = list(candidates)
    with _lock:
        notes = {candidate: _note(candidate) for candidate in wanted if candidate not in _harm}
        _harm.update({candidate: None for candidate, note in notes.items() if _is_kept(note)})
        fresh = [candidate for candidate in wanted if candidate not in _harm]
        entries = [(candidate.entry.name, candidate.entry.value) for candidate in fresh]
        outcomes = trials("ocannl.backend.plugin_check:ask", entries, LIMIT_SECONDS)
        for candidate, outcome in zip(fresh, outcomes, strict=True):
            if outcome.status == ANSWERED:
                _harm[candidate] = None
                _keep(notes[candidate])
            else:
                slow = f"it did not answer within {LIMIT_SECONDS:g} seconds"
                _harm[candidate] = words = slow if outcome.status is None else outcome.words
                _log.warning(
                    "backend `%s` of %s is passed over: %s; repair it or run: pip uninstall %s",
                    candidate.name, candidate, words, candidate.distribution,
                )  # fmt: skip
        return {candidate: found for candidate in wanted if (found := _harm[candidate]) is not None}


def ask(name: str, value: str) -> int:
    """In the other process: asks as `registry` does. What can be told in words harms nobody."""
    from ocannl.backend.registry import describe, probe

    with suppress(BackendError):
        probe(describe(Candidate(name, "its distribution", "", EntryPoint(name, value, GROUP))))
    return ANSWERED


# --------------------------------------------------------------------------------------------------------- on disk


def _note(candidate: Candidate) -> tuple[Path, str] | None:
    """The file about a plugin, and what it holds while nothing has changed: when the folder that it is installed in and
    its module did. None when nothing is to be kept."""
    identity = "\0".join([sys.executable, candidate.distribution, candidate.name])
    entry = candidate.entry
    try:
        if not CACHE.get():
            return None
        places: list[object] = [entry.dist.locate_file("")] if entry.dist else []
        spec = find_spec(entry.value.partition(":")[0].partition(".")[0])
        places += [spec.origin] if spec is not None and spec.origin else []
        stamps = [f"{place} {os.stat(str(place)).st_mtime_ns}" for place in places]
        folder = (CACHE_DIR.get() or user_cache_folder()) / "plugins"
    except (OSError, ValueError):
        return None
    name = hashlib.sha256(identity.encode()).hexdigest()
    return folder / name, "\n".join([sys.version, candidate.version, entry.value, *stamps])


def _is_kept(note: tuple[Path, str] | None) -> bool:
    with suppress(OSError, ValueError):
        return note is not None and note[0].read_text(encoding="utf-8") == note[1]
    return False


def _keep(note: tuple[Path, str] | None) -> None:
    if note is not None:
        path, content = note
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


def _after_fork() -> None:
    """A child does not wait for a lock that nobody in it holds."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

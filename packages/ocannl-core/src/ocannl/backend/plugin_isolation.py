"""Crash isolation of plugins: probes each plugin in a separate process before this one imports it.

A successful check is cached on disk until the installation changes; a plugin that crashes or hangs is checked again,
with a warning, by the next process.
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

from ocannl.backend.discovery import GROUP, Candidate
from ocannl.backend.plugin_loader import describe, probe
from ocannl.backend.sandbox import run_isolated
from ocannl.base.config import CACHE, CACHE_DIR, user_cache_folder
from ocannl.base.errors import BackendError
from ocannl.base.forks import replace_after_fork
from ocannl.base.log import logger

TIMEOUT_SECONDS = 5.0
COMPLETED = 42  # exit status of a completed check; a plugin that exits early produces any other
_log = logger("backend.plugin_check")
_lock = threading.Lock()
replace_after_fork(globals(), "_lock", threading.Lock)
_verdicts: dict[Candidate, str | None] = {}  # the reason why a plugin is unsafe; None: safe


def unsafe_plugins(candidates: Iterable[Candidate]) -> dict[Candidate, str]:
    """Returns the plugins that must not be imported in this process, with the reason for each."""
    requested = list(candidates)
    with _lock:
        cache_entries = {candidate: _cache_entry(candidate) for candidate in requested if candidate not in _verdicts}
        _verdicts.update({candidate: None for candidate, entry in cache_entries.items() if _is_cached(entry)})
        unchecked = [candidate for candidate in requested if candidate not in _verdicts]
        entry_points = [(candidate.entry.name, candidate.entry.value) for candidate in unchecked]
        outcomes = run_isolated("ocannl.backend.plugin_isolation:load_and_probe", entry_points, TIMEOUT_SECONDS)
        for candidate, outcome in zip(unchecked, outcomes, strict=True):
            if outcome.status == COMPLETED:
                _verdicts[candidate] = None
                _write_cache(cache_entries[candidate])
            else:
                timeout_reason = f"it did not respond within {TIMEOUT_SECONDS:g} seconds"
                _verdicts[candidate] = reason = timeout_reason if outcome.status is None else outcome.reason
                _log.warning(
                    "backend `%s` of %s is passed over: %s; repair it or run: pip uninstall %s",
                    candidate.name, candidate, reason, candidate.distribution,
                )  # fmt: skip
        return {candidate: verdict for candidate in requested if (verdict := _verdicts[candidate]) is not None}


def load_and_probe(name: str, value: str) -> int:
    """Imports and probes a plugin; runs in the separate process. A `BackendError` is safe."""
    with suppress(BackendError):
        probe(describe(Candidate(name, "its distribution", "", EntryPoint(name, value, GROUP))))
    return COMPLETED


# ------------------------------------------------------------------------------------------------------ disk cache


def _cache_entry(candidate: Candidate) -> tuple[Path, str] | None:
    """Returns the path of a plugin's cache file and its expected content, which includes the modification times of the
    installation folder and the module. None if the cache is disabled or unavailable."""
    identity = "\0".join([sys.executable, candidate.distribution, candidate.name])
    entry = candidate.entry
    try:
        if not CACHE.get():
            return None
        paths: list[object] = [entry.dist.locate_file("")] if entry.dist else []
        spec = find_spec(entry.value.partition(":")[0].partition(".")[0])
        paths += [spec.origin] if spec is not None and spec.origin else []
        mtimes = [f"{path} {os.stat(str(path)).st_mtime_ns}" for path in paths]
        folder = (CACHE_DIR.get() or user_cache_folder()) / "plugins"
    except (OSError, ValueError):
        return None
    name = hashlib.sha256(identity.encode()).hexdigest()
    return folder / name, "\n".join([sys.version, candidate.version, entry.value, *mtimes])


def _is_cached(cache_entry: tuple[Path, str] | None) -> bool:
    with suppress(OSError, ValueError):
        return cache_entry is not None and cache_entry[0].read_text(encoding="utf-8") == cache_entry[1]
    return False


def _write_cache(cache_entry: tuple[Path, str] | None) -> None:
    if cache_entry is not None:
        path, content = cache_entry
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")

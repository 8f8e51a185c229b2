"""Checks of plugins in isolated processes: each is imported, probed and loaded there, before one is imported here.

Verdicts are cached on disk (`verdict_cache`), those on plugins that crash or hang included. Where no isolated process
can be started, this process imports the backends of ocannl itself, and leaves those of others to users who name them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ocannl.backend.discovery import GROUP, Candidate
from ocannl.backend.plugin_loader import describe, load_backend, probe
from ocannl.backend.sandbox import run_isolated
from ocannl.backend.verdict import Verdict, failed, refused, verdict_from_tree
from ocannl.backend.verdict_cache import open_verdict_cache
from ocannl.base.config import is_isolated
from ocannl.base.entry_points import EntryPoint
from ocannl.base.errors import BackendError, BackendUnavailable
from ocannl.base.forks import replace_after_fork
from ocannl.base.log import logger

TIMEOUT_SECONDS = 15.0
_log = logger("backend.plugin_check")
_lock = threading.Lock()
replace_after_fork(globals(), "_lock", threading.Lock)
_verdicts: dict[Candidate, Verdict] = {}


def verdicts(candidates: Iterable[Candidate]) -> dict[Candidate, Verdict]:
    """Returns the verdict on each plugin: one that is known, or that of a check."""
    requested = list(candidates)
    with _lock:
        if unknown := [candidate for candidate in requested if candidate not in _verdicts]:
            kept = open_verdict_cache()
            _verdicts.update(kept.load(unknown))
            unchecked = [candidate for candidate in unknown if candidate not in _verdicts]
            try:
                checked = _check(unchecked)
            except ChildProcessError as error:
                _verdicts.update({candidate: _unchecked(candidate, error) for candidate in unchecked})
            else:
                _verdicts.update(checked)
                kept.store(checked)
        return {candidate: _verdicts[candidate] for candidate in requested}


def correct(candidate: Candidate, verdict: Verdict) -> None:
    """Replaces the verdict on a plugin that has failed here after a check."""
    with _lock:
        _verdicts[candidate] = verdict


def _check(candidates: list[Candidate]) -> dict[Candidate, Verdict]:
    arguments = [(c.entry.name, c.entry.value, c.distribution, c.version) for c in candidates]
    answers = run_isolated(f"{__name__}:examine", arguments, TIMEOUT_SECONDS)
    checked = {}
    for candidate, answer in zip(candidates, answers, strict=True):
        try:
            verdict = verdict_from_tree(answer.value)
        except ValueError as error:
            verdict = failed(candidate, answer.failure or str(error))
        checked[candidate] = verdict
    return checked


def _unchecked(candidate: Candidate, error: ChildProcessError) -> Verdict:
    """The verdict where no process can be started."""
    if candidate.is_first_party:
        return examine_unisolated(candidate)
    if not is_isolated():
        _log.warning(
            "backend `%s` of %s is passed over, since it cannot be checked: %s; to use it, name it, or set"
            " OCANNL_BACKEND=%s",
            candidate.name, candidate, error, candidate.name,
        )  # fmt: skip
    return refused(BackendUnavailable(f"it cannot be checked: {error}; name it to use it"))


def examine(name: str, value: str, distribution: str, version: str) -> dict[str, object]:
    """The check in the isolated process; returns the fields of the verdict."""
    return examine_unisolated(Candidate(EntryPoint(GROUP, name, value, distribution, version))).tree()


def examine_unisolated(candidate: Candidate) -> Verdict:
    """Imports, probes and loads a plugin in this process."""
    description, priority = "", None
    try:
        info = describe(candidate)
        description, priority = info.description, info.priority
        reason = probe(candidate, info)
        if reason is not None:
            return refused(BackendUnavailable(reason), description, priority)
        load_backend(candidate, info)
    except BackendError as error:
        return refused(error, description, priority)
    return Verdict(None, None, description, priority)

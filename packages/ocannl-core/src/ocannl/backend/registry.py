"""Backend registry: discovery, validation and selection of backends.

Discovery reads the metadata of installed distributions only (about a millisecond). A backend that is named explicitly
is imported and probed. Default selection probes all candidates: first each in a separate process (`plugin_isolation`),
then in this one unless it crashed or hung. A broken plugin is reported and does not affect other plugins. The reference
backend is part of the core and uses the same mechanism.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from ocannl.backend import plugin_isolation, plugin_loader
from ocannl.backend.api import Backend, BackendInfo
from ocannl.backend.discovery import Candidate, discover
from ocannl.backend.plugin_loader import describe, probe, raise_broken
from ocannl.base.config import BACKEND
from ocannl.base.errors import (
    BackendApiMismatch,
    BackendError,
    BackendImportError,
    BackendNotInstalled,
    BackendUnavailable,
    DuplicateBackend,
    UnknownBackend,
)
from ocannl.base.forks import import_lock
from ocannl.base.log import logger
from ocannl.base.plugins import exception_summary

DISTRIBUTIONS = {  # first-party backends and their distributions
    "c": "ocannl-backend-c",
    "llvm": "ocannl-backend-llvm",
    "triton": "ocannl-backend-triton",
}
_log = logger("backend.registry")


@dataclass(frozen=True, slots=True)
class BackendRow:
    """One installed backend, as listed by `backends()`. `reason` explains why it is not usable; None if it is."""

    name: str
    distribution: str
    version: str
    usable: bool
    reason: str | None
    description: str = ""
    priority: int = 0


_backends: dict[str, Backend] = {}

# --------------------------------------------------------------------------------------------------- all plugins


def backends() -> list[BackendRow]:
    """Lists the installed backends by name: whether each is usable on this machine, and if not, why."""
    candidates_by_name = discover()
    unsafe = _unsafe_candidates(candidates_by_name)
    return [
        _row(candidate, candidates, unsafe) for candidates in candidates_by_name.values() for candidate in candidates
    ]


def _row(candidate: Candidate, candidates: tuple[Candidate, ...], unsafe: Mapping[Candidate, str]) -> BackendRow:
    def row(reason: str | None, info: BackendInfo | None = None) -> BackendRow:
        details = (info.description, info.priority) if info else ("", 0)
        return BackendRow(candidate.name, candidate.distribution, candidate.version, reason is None, reason, *details)

    if candidate in unsafe:
        return row(unsafe[candidate])
    try:
        info = describe(unique_candidate(candidates, candidate))
    except BackendError as error:
        return row(str(error))
    return row(probe(info), info)


def _unsafe_candidates(candidates_by_name: Mapping[str, tuple[Candidate, ...]]) -> dict[Candidate, str]:
    """Checks the plugins with a unique name; returns those that crash or hang, with the reason."""
    unique = [candidates[0] for candidates in candidates_by_name.values() if len(candidates) == 1]
    return plugin_isolation.unsafe_plugins(candidate for candidate in unique if not candidate.is_builtin)


def unique_candidate(candidates: tuple[Candidate, ...], candidate: Candidate) -> Candidate:
    """Returns the candidate; raises `DuplicateBackend` if another distribution claims its name. The core's own name
    cannot be taken over."""
    if len(candidates) == 1 or candidate.is_builtin:
        return candidate
    name = candidate.name
    if candidates[0].is_builtin:
        raise DuplicateBackend(
            f"backend `{name}` belongs to {candidates[0]}, and {candidate} claims it too; run: pip uninstall"
            f" {candidate.distribution}"
        )
    owners = " and ".join(map(str, candidates))
    raise DuplicateBackend(
        f"backend `{name}` is provided by {owners}; uninstall one of them, e.g.: pip uninstall"
        f" {candidates[-1].distribution}"
    )


def usable_backends() -> list[tuple[BackendInfo, Candidate]]:
    """Returns the usable backends by decreasing priority; the reference backend is last."""
    candidates_by_name = discover()
    usable, unsafe = [], _unsafe_candidates(candidates_by_name)
    for candidates in candidates_by_name.values():
        try:
            candidate = unique_candidate(candidates, candidates[0])
            if candidate in unsafe:
                continue
            info = describe(candidate)
        except BackendError as error:
            _log.info("passed over: %s", error)
            continue
        if probe(info) is None:
            usable.append((info, candidate))
    return sorted(usable, key=lambda pair: (pair[1].is_builtin, -pair[0].priority, pair[0].name))


# ------------------------------------------------------------------------------------------------------ selection


def resolve(name: str | None = None) -> Backend:
    """Selects a backend: the argument, else the setting `backend`, else the best usable one.

    An explicitly named backend never falls back to another.
    """
    choice = BACKEND.resolve(name)
    if choice.value is not None:
        return _load_named(choice.value, "" if choice.source == "argument" else f" (requested by {choice.source})")
    errors: list[BackendError] = []
    for info, candidate in usable_backends():
        try:
            return _load(info, candidate)
        except BackendError as error:
            _log.warning("%s", error)
            errors.append(error)
    raise errors[-1]


def _load_named(name: str, requester: str) -> Backend:
    try:
        return open_backend(name, requester)
    except BackendError as error:
        if type(error) not in (BackendImportError, BackendApiMismatch, BackendUnavailable):
            raise
        usable = ", ".join(info.name for info, _ in usable_backends() if info.name != name)
        raise type(error)(f"{error}{requester}; these work: {usable}") from error.__cause__


def open_backend(name: str, requester: str = "") -> Backend:
    """Loads the backend of this name without importing any other plugin."""
    with plugin_loader.lock:
        if name in _backends:
            return _backends[name]
    candidates_by_name = discover()
    if name not in candidates_by_name:
        _raise_unknown(name, requester, candidates_by_name)
    candidate = unique_candidate(candidates_by_name[name], candidates_by_name[name][0])
    info = describe(candidate)
    reason = probe(info)
    if reason is not None:
        raise BackendUnavailable(f"backend `{name}` of {candidate} does not work here: {reason}")
    return _load(info, candidate)


def _raise_unknown(name: str, requester: str, candidates_by_name: dict[str, tuple[Candidate, ...]]) -> NoReturn:
    if name in DISTRIBUTIONS:
        distribution = DISTRIBUTIONS[name]
        raise BackendNotInstalled(f"backend `{name}` is not installed{requester}; run: pip install {distribution}")
    matches = difflib.get_close_matches(name, [*candidates_by_name, *DISTRIBUTIONS], 1)
    hint = f"did you mean `{matches[0]}`? " if matches else ""
    missing = ", ".join(absent for absent in DISTRIBUTIONS if absent not in candidates_by_name)
    available = ", ".join(candidates_by_name) + (f"; known, but not installed: {missing}" if missing else "")
    raise UnknownBackend(f"there is no backend `{name}`{requester}; {hint}installed: {available}")


def _load(info: BackendInfo, candidate: Candidate) -> Backend:
    with plugin_loader.lock:
        if info.name not in _backends:
            try:
                with import_lock:
                    _backends[info.name] = info.load()
            except (BackendError, KeyboardInterrupt):
                raise
            except BaseException as cause:  # another distribution may even exit
                raise_broken(candidate, f"loading it failed with {exception_summary(cause)}", cause)
        return _backends[info.name]

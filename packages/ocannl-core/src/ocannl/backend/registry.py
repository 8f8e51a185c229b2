"""Backend registry: discovery, validation and selection of backends.

Discovery reads the metadata of installed distributions only (about a millisecond). A backend that is named explicitly
is imported, with a time limit, and no other plugin is. Without a name, isolated processes check all plugins
(`plugin_check`), and the usable backend of the highest priority is imported here; plugins that cannot be used are
reported once. The reference backend is part of the core and uses the same mechanism.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import NoReturn

from ocannl.backend import plugin_check, plugin_loader
from ocannl.backend.api import Backend
from ocannl.backend.discovery import (
    BACKENDS_OF_DEVICES,
    DISTRIBUTIONS,
    REFERENCE_DESCRIPTION,
    REFERENCE_PRIORITY,
    Candidate,
    considered,
    discover,
)
from ocannl.backend.plugin_loader import check_capabilities, describe, load_backend, probe
from ocannl.backend.verdict import Verdict, failed, refused
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
from ocannl.base.log import logger
from ocannl.base.time_limit import TimeLimitReached, time_limit

LOAD_SECONDS = 120.0  # for the import of a backend, which may be large
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
_reported: set[Candidate] = set()

# --------------------------------------------------------------------------------------------------- all plugins


def backends() -> list[BackendRow]:
    """Lists the installed backends by name: whether each is usable on this machine, and if not, why."""
    return [
        BackendRow(
            c.name, c.distribution, c.version, verdict.is_usable, verdict.reason, verdict.description,
            verdict.priority or 0,
        )
        for c, verdict in _verdicts(considered()).items()
    ]  # fmt: skip


def _verdicts(candidates_by_name: dict[str, tuple[Candidate, ...]]) -> dict[Candidate, Verdict]:
    """Returns the verdicts on all candidates; plugins of which only the declaration counts are not checked."""
    verdicts: dict[Candidate, Verdict] = {}
    plugins: list[Candidate] = []
    for candidates in candidates_by_name.values():
        for candidate in candidates:
            try:
                unique_candidate(candidates, candidate)
                if candidate.is_builtin:
                    verdicts[candidate] = Verdict(None, None, REFERENCE_DESCRIPTION, REFERENCE_PRIORITY)
                elif candidate.defect is not None:
                    verdicts[candidate] = plugin_check.examine_unisolated(candidate)
                else:
                    plugins.append(candidate)
            except DuplicateBackend as error:
                verdicts[candidate] = refused(error)
    verdicts |= plugin_check.verdicts(plugins)
    return {candidate: verdicts[candidate] for candidates in candidates_by_name.values() for candidate in candidates}


def unique_candidate(candidates: tuple[Candidate, ...], candidate: Candidate) -> Candidate:
    """Returns the candidate; raises `DuplicateBackend` if another distribution claims its name. The names of
    first-party backends cannot be taken over."""
    name = candidate.name
    if candidate.is_first_party or (len(candidates) == 1 and name not in DISTRIBUTIONS):
        return candidate
    if candidates[0].is_first_party:
        raise DuplicateBackend(
            f"backend `{name}` belongs to {candidates[0]}, and {candidate} claims it too; run: pip uninstall"
            f" {candidate.distribution}"
        )
    if name in DISTRIBUTIONS:
        raise DuplicateBackend(
            f"backend `{name}` belongs to {DISTRIBUTIONS[name]}, and {candidate} claims it; run: pip uninstall"
            f" {candidate.distribution}"
        )
    owners = " and ".join(map(str, candidates))
    raise DuplicateBackend(
        f"backend `{name}` is provided by {owners}; uninstall one of them, e.g.: pip uninstall"
        f" {candidates[-1].distribution}"
    )


def _usable(verdicts: dict[Candidate, Verdict]) -> list[Candidate]:
    """Returns the usable backends by decreasing priority; the reference backend is last."""
    usable = [(c, verdict) for c, verdict in verdicts.items() if verdict.is_usable]
    return [c for c, verdict in sorted(usable, key=lambda p: (p[0].is_builtin, -(p[1].priority or 0), p[0].name))]


def _report(verdicts: dict[Candidate, Verdict], chosen: Candidate) -> None:
    """Warns of broken backends that might have been preferred to the chosen one, once in this process."""
    priority = verdicts[chosen].priority or 0
    faults = {
        candidate: verdict.reason
        for candidate, verdict in verdicts.items()
        if verdict.is_fault and candidate not in _reported
        and (chosen.is_builtin or verdict.priority is None or verdict.priority >= priority)
    }  # fmt: skip
    if faults:
        _reported.update(faults)
        _log.warning(
            "`%s` is used, and these backends cannot be:\n  %s\nset OCANNL_BACKEND=NAME to use a backend without"
            " checking the others, or OCANNL_DISCOVERY=off to ignore plugins of others",
            chosen.name, "\n  ".join(str(reason) for reason in faults.values()),
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------------ selection


def resolve(name: str | None = None) -> Backend:
    """Selects a backend: the argument, else the setting `backend`, else the best usable one.

    An explicitly named backend never falls back to another.
    """
    choice = BACKEND.resolve(name)
    if choice.value is not None:
        return _load_named(choice.value, "" if choice.source == "argument" else f" (requested by {choice.source})")
    verdicts = _verdicts(considered())
    errors: list[BackendError] = []
    for candidate in _usable(verdicts):
        try:
            backend = _open(candidate)
        except BackendError as error:
            errors.append(error)
            verdicts[candidate] = refused(error, priority=verdicts[candidate].priority)
            plugin_check.correct(candidate, verdicts[candidate])
        else:
            _report(verdicts, candidate)
            return backend
    raise errors[-1]


def _load_named(name: str, requester: str) -> Backend:
    try:
        return open_backend(name, requester)
    except BackendError as error:
        if type(error) not in (BackendImportError, BackendApiMismatch, BackendUnavailable):
            raise
        usable = ", ".join(candidate.name for candidate in _usable(_verdicts(considered())) if candidate.name != name)
        raise type(error)(f"{error}{requester}; these work: {usable}") from error.__cause__


def open_backend(name: str, requester: str = "") -> Backend:
    """Loads the backend of this name without importing any other plugin."""
    with plugin_loader.lock:
        if name in _backends:
            return _backends[name]
    candidates_by_name = discover()
    if name not in candidates_by_name:
        _raise_unknown(name, requester, candidates_by_name)
    return _open(unique_candidate(candidates_by_name[name], candidates_by_name[name][0]))


def _raise_unknown(name: str, requester: str, candidates_by_name: dict[str, tuple[Candidate, ...]]) -> NoReturn:
    if name in DISTRIBUTIONS:
        distribution = DISTRIBUTIONS[name]
        raise BackendNotInstalled(f"backend `{name}` is not installed{requester}; run: pip install {distribution}")
    matches = difflib.get_close_matches(name, [*candidates_by_name, *DISTRIBUTIONS], 1)
    hint = f"did you mean `{matches[0]}`? " if matches else ""
    device = name.partition(":")[0].lower()
    if device in BACKENDS_OF_DEVICES:
        backend = BACKENDS_OF_DEVICES[device]
        hint = f"devices of this kind belong to `{backend}` (pip install {DISTRIBUTIONS[backend]}); "
    missing = ", ".join(absent for absent in DISTRIBUTIONS if absent not in candidates_by_name)
    available = ", ".join(candidates_by_name) + (f"; known, but not installed: {missing}" if missing else "")
    raise UnknownBackend(f"there is no backend `{name}`{requester}; {hint}installed: {available}")


def _open(candidate: Candidate) -> Backend:
    """Imports, probes and loads a backend, unless it is loaded.

    Raises: BackendUnavailable if its probe says so, BackendImportError if it is broken or takes too long.
    """
    with plugin_loader.lock:
        if candidate.name not in _backends:
            try:
                with time_limit(LOAD_SECONDS):
                    info = describe(candidate)
                    reason = probe(candidate, info)
                    if reason is not None:
                        raise BackendUnavailable(
                            f"backend `{candidate.name}` of {candidate} does not work here: {reason}"
                        )
                    backend = load_backend(candidate, info)
            except TimeLimitReached:
                failure = f"it did not respond within {LOAD_SECONDS:g} seconds"
                raise BackendImportError(failed(candidate, failure).reason) from None
            check_capabilities(candidate, backend)
            _backends[candidate.name] = backend
        return _backends[candidate.name]

"""Which backends there are, whether they work here, and which one to use.

Plugins are found from the metadata of installed distributions alone (about a millisecond). One that is named is
imported and asked. Where nobody names one, all have to be asked: first each in a process of its own (`vet`), then here,
if it has neither crashed nor hung there. What is broken is reported without harm to the others. The reference backend
comes with the core and goes through the same door.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import pluggy

from ocannl.backend import plugin_check
from ocannl.backend.api import API_VERSION, Backend, BackendInfo
from ocannl.backend.hooks import BackendHooks
from ocannl.backend.installed import CORE, Candidate, core_version, discover
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
from ocannl.base.forks import undivided
from ocannl.base.log import logger
from ocannl.base.plugins import PROJECT, words

KNOWN = {  # name: the distribution that provides it
    "c": "ocannl-backend-c",
    "llvm": "ocannl-backend-llvm",
    "triton": "ocannl-backend-triton",
}
_log = logger("backend.registry")
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class BackendRow:
    """What `backends()` tells about one installed backend. `reason` says why it is not usable, None when it is."""

    name: str
    distribution: str
    version: str
    usable: bool
    reason: str | None
    description: str = ""
    priority: int = 0


# ------------------------------------------------------------------------------------------------ asking one plugin

_infos: dict[Candidate, BackendInfo] = {}
_backends: dict[str, Backend] = {}
_FIELDS: dict[str, type | None] = {
    "name": str, "api_version": int, "description": str, "priority": int, "probe": None, "load": None,
}  # fmt: skip


def describe(candidate: Candidate) -> BackendInfo:
    """Import the light module of a plugin and take its description; checked before anything heavy can be imported."""
    with _lock:
        if candidate not in _infos:
            _infos[candidate] = _checked(candidate, _declared(candidate))
        return _infos[candidate]


def _declared(candidate: Candidate) -> object:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(BackendHooks)
    try:
        manager.register(candidate.entry.load(), candidate.name)
        manager.check_pending()
        if not manager.hook.ocannl_backend.get_hookimpls():
            _broken(candidate, f"`{candidate.entry.value}` implements no hook `ocannl_backend`")
        return manager.hook.ocannl_backend(api_version=API_VERSION)
    except (BackendError, KeyboardInterrupt):
        raise
    except BaseException as cause:
        _broken(candidate, f"importing `{candidate.entry.value}` failed with {words(cause)}", cause)


def _checked(candidate: Candidate, info: object) -> BackendInfo:
    if not isinstance(info, BackendInfo):
        _broken(candidate, f"its hook `ocannl_backend` gives {type(info).__name__}, not BackendInfo")
    for field, kind in _FIELDS.items():
        given: object = getattr(info, field)
        if not (isinstance(given, kind) if isinstance(kind, type) else callable(given)):
            _broken(candidate, f"its description has {field} = {given!r}")
    if info.api_version != API_VERSION:
        behind = CORE if info.api_version > API_VERSION else candidate.distribution
        raise BackendApiMismatch(
            f"backend `{candidate.name}` of {candidate} is built for version {info.api_version} of the plugin"
            f" interface, {CORE} {core_version()} for version {API_VERSION}; run: pip install --upgrade {behind}"
        )
    if info.name != candidate.name:
        _broken(candidate, f"it calls itself `{info.name}`")
    return info


def _broken(candidate: Candidate, what: str, cause: BaseException | None = None) -> NoReturn:
    raise BackendImportError(
        f"backend `{candidate.name}` of {candidate} is broken: {what}; repair it or run: pip uninstall"
        f" {candidate.distribution}"
    ) from cause


def probe(info: BackendInfo) -> str | None:
    """Why a backend does not work here; None when it does."""
    try:
        reason = info.probe()
    except KeyboardInterrupt:
        raise
    except BaseException as cause:
        return f"its probe failed with {words(cause)}"
    if reason is None:
        return None
    return str(reason) or "it does not say why"


# ----------------------------------------------------------------------------------------------------- all of them


def backends() -> list[BackendRow]:
    """What is installed, by name: whether each backend is usable here, and if not, why."""
    found = discover()
    harm = _harm(found)
    return [_row(candidate, candidates, harm) for candidates in found.values() for candidate in candidates]


def _row(candidate: Candidate, candidates: tuple[Candidate, ...], harm: Mapping[Candidate, str]) -> BackendRow:
    def row(reason: str | None, info: BackendInfo | None = None) -> BackendRow:
        about = (info.description, info.priority) if info else ("", 0)
        return BackendRow(candidate.name, candidate.distribution, candidate.version, reason is None, reason, *about)

    if candidate in harm:
        return row(harm[candidate])
    try:
        info = describe(only(candidates, candidate))
    except BackendError as wrong:
        return row(str(wrong))
    return row(probe(info), info)


def _harm(found: Mapping[str, tuple[Candidate, ...]]) -> dict[Candidate, str]:
    """What would come of asking those that can be asked at all and are not the core itself."""
    return plugin_check.harm(only for only, *others in found.values() if not others and not only.is_builtin)


def only(candidates: tuple[Candidate, ...], wanted: Candidate) -> Candidate:
    """The candidate, if no other distribution claims its name. Nobody can take a name from the core."""
    if len(candidates) == 1 or wanted.is_builtin:
        return wanted
    name = wanted.name
    if candidates[0].is_builtin:
        raise DuplicateBackend(
            f"backend `{name}` belongs to {candidates[0]}, and {wanted} claims it too; run: pip uninstall"
            f" {wanted.distribution}"
        )
    owners = " and ".join(map(str, candidates))
    raise DuplicateBackend(
        f"backend `{name}` is provided by {owners}; uninstall one of them, e.g.: pip uninstall"
        f" {candidates[-1].distribution}"
    )


def working() -> list[tuple[BackendInfo, Candidate]]:
    """The usable backends, best first; the reference backend is last."""
    found = discover()
    usable, harm = [], _harm(found)
    for candidates in found.values():
        try:
            candidate = only(candidates, candidates[0])
            if candidate in harm:
                continue
            info = describe(candidate)
        except BackendError as wrong:
            _log.info("passed over: %s", wrong)
            continue
        if probe(info) is None:
            usable.append((info, candidate))
    return sorted(usable, key=lambda pair: (pair[1].is_builtin, -pair[0].priority, pair[0].name))


# ------------------------------------------------------------------------------------------------------- choosing


def resolve(name: str | None = None) -> Backend:
    """The backend to use: the one named, else the one that settings name, else the best that works here.

    A backend that somebody named never falls back to another.
    """
    asked = BACKEND.find(name)
    if asked.value is not None:
        return _load_named(asked.value, "" if asked.source == "argument" else f" (asked for by {asked.source})")
    failed: list[BackendError] = []
    for info, candidate in working():
        try:
            return _load(info, candidate)
        except BackendError as wrong:
            _log.warning("%s", wrong)
            failed.append(wrong)
    raise failed[-1]


def _load_named(name: str, by: str) -> Backend:
    try:
        return open_backend(name, by)
    except BackendError as wrong:
        if type(wrong) not in (BackendImportError, BackendApiMismatch, BackendUnavailable):
            raise
        usable = ", ".join(info.name for info, _ in working() if info.name != name)
        raise type(wrong)(f"{wrong}{by}; these work: {usable}") from wrong.__cause__


def open_backend(name: str, by: str = "") -> Backend:
    """The backend of this name; asks no other plugin."""
    with _lock:
        if name in _backends:
            return _backends[name]
    found = discover()
    if name not in found:
        _refuse_absent(name, by, found)
    candidate = only(found[name], found[name][0])
    info = describe(candidate)
    reason = probe(info)
    if reason is not None:
        raise BackendUnavailable(f"backend `{name}` of {candidate} does not work here: {reason}")
    return _load(info, candidate)


def _refuse_absent(name: str, by: str, found: dict[str, tuple[Candidate, ...]]) -> NoReturn:
    if name in KNOWN:
        raise BackendNotInstalled(f"backend `{name}` is not installed{by}; run: pip install {KNOWN[name]}")
    close = difflib.get_close_matches(name, [*found, *KNOWN], 1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    more = ", ".join(known for known in KNOWN if known not in found)
    others = f"; known, but not installed: {more}" if more else ""
    raise UnknownBackend(f"there is no backend `{name}`{by}; {hint}installed: {', '.join(found)}{others}")


def _load(info: BackendInfo, candidate: Candidate) -> Backend:
    with _lock:
        if info.name not in _backends:
            try:
                with undivided:
                    _backends[info.name] = info.load()
            except (BackendError, KeyboardInterrupt):
                raise
            except BaseException as cause:
                _broken(candidate, f"loading it failed with {words(cause)}", cause)
        return _backends[info.name]


def _after_fork() -> None:
    """A child does not wait for a lock that nobody in it holds."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

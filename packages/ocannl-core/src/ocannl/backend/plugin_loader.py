"""Descriptors of plugins: import of the entry module, validation, and the probe."""

from __future__ import annotations

import threading
from typing import NoReturn

import pluggy

from ocannl.backend.api import API_VERSION, BackendInfo
from ocannl.backend.discovery import CORE, Candidate, core_version
from ocannl.backend.hookspecs import BackendHooks
from ocannl.base.errors import BackendApiMismatch, BackendError, BackendImportError
from ocannl.base.forks import replace_after_fork
from ocannl.base.plugins import PROJECT, exception_summary

lock = threading.RLock()  # of all imports of plugins
replace_after_fork(globals(), "lock", threading.RLock)
_infos: dict[Candidate, BackendInfo] = {}
_FIELDS: dict[str, type | None] = {
    "name": str, "api_version": int, "description": str, "priority": int, "probe": None, "load": None,
}  # fmt: skip


def describe(candidate: Candidate) -> BackendInfo:
    """Imports the entry module of a plugin and returns its descriptor, validated before the backend itself loads."""
    with lock:
        if candidate not in _infos:
            _infos[candidate] = _validated(candidate, _call_hook(candidate))
        return _infos[candidate]


def _call_hook(candidate: Candidate) -> object:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(BackendHooks)
    try:
        manager.register(candidate.entry.load(), candidate.name)
        manager.check_pending()
        if not manager.hook.ocannl_backend.get_hookimpls():
            raise_broken(candidate, f"`{candidate.entry.value}` implements no hook `ocannl_backend`")
        return manager.hook.ocannl_backend(api_version=API_VERSION)
    except (BackendError, KeyboardInterrupt):
        raise
    except BaseException as cause:  # another distribution may even exit
        raise_broken(candidate, f"importing `{candidate.entry.value}` failed with {exception_summary(cause)}", cause)


def _validated(candidate: Candidate, info: object) -> BackendInfo:
    if not isinstance(info, BackendInfo):
        raise_broken(candidate, f"its hook `ocannl_backend` gives {type(info).__name__}, not BackendInfo")
    for field, kind in _FIELDS.items():
        value: object = getattr(info, field)
        if not (isinstance(value, kind) if isinstance(kind, type) else callable(value)):
            raise_broken(candidate, f"its description has {field} = {value!r}")
    if info.api_version != API_VERSION:
        outdated = CORE if info.api_version > API_VERSION else candidate.distribution
        raise BackendApiMismatch(
            f"backend `{candidate.name}` of {candidate} is built for version {info.api_version} of the plugin"
            f" interface, {CORE} {core_version()} for version {API_VERSION}; run: pip install --upgrade {outdated}"
        )
    if info.name != candidate.name:
        raise_broken(candidate, f"it calls itself `{info.name}`")
    return info


def raise_broken(candidate: Candidate, problem: str, cause: BaseException | None = None) -> NoReturn:
    raise BackendImportError(
        f"backend `{candidate.name}` of {candidate} is broken: {problem}; repair it or run: pip uninstall"
        f" {candidate.distribution}"
    ) from cause


def probe(info: BackendInfo) -> str | None:
    """Returns the reason why a backend does not work on this machine; None if it does."""
    try:
        reason = info.probe()
    except KeyboardInterrupt:
        raise
    except BaseException as cause:  # as above
        return f"its probe failed with {exception_summary(cause)}"
    if reason is None:
        return None
    return str(reason) or "it gives no reason"

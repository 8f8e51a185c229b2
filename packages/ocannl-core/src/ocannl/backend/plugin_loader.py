"""Loading of plugins: import of the entry module, its description, the probe, and the backend, all validated."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields, replace
from inspect import getattr_static
from typing import Any, NoReturn

from ocannl.backend.api import API_MINOR, API_VERSION, OLDEST_API_VERSION, Backend, BackendInfo
from ocannl.backend.discovery import CORE, GROUP, Candidate, core_version
from ocannl.backend.hookspecs import BackendHooks
from ocannl.base.entry_points import EntryPoint
from ocannl.base.errors import BackendApiMismatch, BackendImportError, BackendUnavailable
from ocannl.base.forks import import_lock, replace_after_fork
from ocannl.base.plugin_hooks import MAX_NUMBER, imported_hook, invalid_field
from ocannl.base.plugins import exception_summary, single_line
from ocannl.base.time_limit import TimeLimitReached
from ocannl.ir.capabilities import Capabilities

lock = threading.RLock()  # of all imports of plugins
replace_after_fork(globals(), "lock", threading.RLock)
_infos: dict[Candidate, BackendInfo] = {}
_origins: dict[int, tuple[Candidate, Backend]] = {}  # by identity, which the reference keeps
_FIELDS: dict[str, type] = {"name": str, "api_version": int, "description": str, "priority": int, "api_minor": int}
_MISSING = object()
_MEMBERS = ("name", "version", "capabilities", "compile", "restore", "link", "device_count", "device")


def describe(candidate: Candidate) -> BackendInfo:
    """Imports the entry module of a plugin and returns its descriptor, validated before the backend itself loads."""
    with lock:
        if candidate not in _infos:
            _infos[candidate] = _validated(candidate, _call_hook(candidate))
        return _infos[candidate]


def _call_hook(candidate: Candidate) -> object:
    if candidate.defect is not None:
        raise_broken(candidate, candidate.defect)
    action = f"importing `{candidate.entry.value}`"
    hook = guarded(candidate, lambda: imported_hook(candidate.entry, BackendHooks, "ocannl_backend"), action)
    if hook is None:
        raise_broken(candidate, f"`{candidate.entry.value}` implements no hook `ocannl_backend`")
    return guarded(candidate, lambda: hook(api_version=API_VERSION), action)


def _validated(candidate: Candidate, description: object) -> BackendInfo:
    if not isinstance(description, BackendInfo):
        raise_broken(candidate, f"its hook `ocannl_backend` gives {type(description).__name__}, not BackendInfo")
    values = guarded(candidate, lambda: {f.name: getattr(description, f.name) for f in fields(BackendInfo)}, "reading")
    if (field := invalid_field(values, _FIELDS)) is not None:
        raise_broken(candidate, f"its description has {field} = {shown(values[field])}")
    info = BackendInfo(**values)
    if not OLDEST_API_VERSION <= info.api_version <= API_VERSION:
        outdated = CORE if info.api_version > API_VERSION else candidate.distribution
        raise BackendApiMismatch(
            f"backend `{candidate.name}` of {candidate} is built for version {info.api_version} of the plugin"
            f" interface, {CORE} {core_version()} for {_supported()}; run: pip install --upgrade {outdated}"
        )
    if info.api_version == API_VERSION and info.api_minor > API_MINOR:
        raise BackendApiMismatch(
            f"backend `{candidate.name}` of {candidate} needs version {API_VERSION}.{info.api_minor} of the plugin"
            f" interface, {CORE} {core_version()} has {API_VERSION}.{API_MINOR}; run: pip install --upgrade {CORE}"
        )
    if info.name != candidate.name:
        raise_broken(candidate, f"it calls itself `{info.name}`")
    return replace(info, description=single_line(info.description))


def _supported() -> str:
    if OLDEST_API_VERSION == API_VERSION:
        return f"version {API_VERSION}"
    return f"versions {OLDEST_API_VERSION} to {API_VERSION}"


def probe(candidate: Candidate, info: BackendInfo) -> str | None:
    """Returns the reason why a backend does not work on this machine; None if it does.

    Raises: BackendImportError if the probe fails, or returns something else.
    """

    def call() -> object:
        try:
            return info.probe()
        except BackendUnavailable as error:
            return str(error)

    reason = guarded(candidate, call, "its probe")
    if reason is None:
        return None
    if type(reason) is not str:
        raise_broken(candidate, f"its probe gives {shown(reason)}, not None or the reason why it does not work")
    return single_line(reason) or "it gives no reason"


def load_backend(candidate: Candidate, info: BackendInfo) -> Backend:
    """Loads a backend, and checks its members, name, version and number of devices.

    Raises: BackendImportError, BackendUnavailable
    """
    with lock, import_lock:
        backend: Any = guarded(candidate, info.load, "loading it")
    missing = next((name for name in _MEMBERS if getattr_static(backend, name, _MISSING) is _MISSING), None)
    if missing is not None:
        raise_broken(candidate, f"its `load` gives {shown(backend)}, not a backend: it has no `{missing}`")
    require(candidate, "name", guarded(candidate, lambda: backend.name, "`name`"), _is_text)
    require(candidate, "version", guarded(candidate, lambda: backend.version, "`version`"), _is_text)
    count = require(candidate, "device_count", guarded(candidate, backend.device_count, "`device_count`"), _is_count)
    if count == 0:
        raise BackendUnavailable(f"backend `{candidate.name}` of {candidate} does not work here: it has no devices")
    _origins[id(backend)] = candidate, backend
    return backend  # type: ignore[no-any-return]


def check_capabilities(candidate: Candidate, backend: Backend) -> None:
    """Raises BackendImportError unless a loaded backend has capabilities, which may measure the processor."""
    claims = guarded(candidate, lambda: backend.capabilities, "`capabilities`")
    require(candidate, "capabilities", claims, lambda value: isinstance(value, Capabilities))


def origin(backend: object) -> Candidate:
    """The plugin of a loaded backend; an unknown distribution for a backend that was created without the registry."""
    if id(backend) in _origins:
        return _origins[id(backend)][0]
    name = single_line(str(getattr(backend, "name", type(backend).__name__)))
    return Candidate(EntryPoint(GROUP, name, ""))


# ------------------------------------------------------------------------------- code of other distributions


def guarded(candidate: Candidate, call: Callable[[], object], action: str) -> Any:
    """Calls the code of a plugin; whatever it raises becomes an error that names the distribution."""
    try:
        return call()
    except (KeyboardInterrupt, TimeLimitReached):
        raise
    except BackendUnavailable as error:
        text = f"backend `{candidate.name}` of {candidate} does not work here: {single_line(str(error))}"
        raise BackendUnavailable(text) from error
    except BaseException as cause:  # another distribution may even exit
        raise_broken(candidate, f"{action} failed with {exception_summary(cause)}", cause)


def require(candidate: Candidate, call: str, value: Any, is_valid: Callable[[object], bool]) -> Any:
    """Returns the value of a member of a backend. Raises: BackendImportError if the plugin API excludes the value."""
    if not is_valid(value):
        raise_invalid(candidate, call, value)
    return value


def raise_invalid(candidate: Candidate, call: str, value: object) -> NoReturn:
    raise_broken(candidate, f"its `{call}` gives {shown(value)}, which the plugin interface does not allow")


def raise_broken(candidate: Candidate, problem: str, cause: BaseException | None = None) -> NoReturn:
    raise BackendImportError(
        f"backend `{candidate.name}` of {candidate} is broken: {single_line(problem)}; {candidate.remedy}"
    ) from cause


def shown(value: object) -> str:
    """A short text for a value of any kind."""
    try:
        return single_line(repr(value), 80)
    except BaseException:  # of the code of another distribution
        return f"a {type(value).__name__}"


def _is_text(value: object) -> bool:
    return type(value) is str and bool(value.strip())


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_NUMBER

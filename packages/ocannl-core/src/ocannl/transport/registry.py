"""Registry of transports: discovery from metadata, import of the named plugin alone, and its validation.

A transport is always named, so no plugin is tried to find a default. Connecting may start the communication of the
whole world, so it happens in this process only, never in an isolated one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NoReturn

from ocannl.base.entry_points import EntryPoint, entry_points
from ocannl.base.errors import (
    DuplicateTransport,
    TransportApiMismatch,
    TransportError,
    TransportImportError,
    TransportNotInstalled,
    TransportUnavailable,
    UnknownTransport,
)
from ocannl.base.plugin_hooks import imported_hook, invalid_field
from ocannl.base.plugins import exception_summary, single_line
from ocannl.base.time_limit import TimeLimitReached, time_limit
from ocannl.transport import single_process
from ocannl.transport.api import API_VERSION, Transport, TransportInfo
from ocannl.transport.hookspecs import TransportHooks

GROUP = "ocannl.transports"
CORE = "ocannl-core"
DISTRIBUTIONS = {"mpi": "ocannl-transport-mpi"}
"""First-party transports and their distributions."""

IMPORT_SECONDS = 120.0
_MEMBERS = ("name", "rank", "size", "hosts", "window", "fence", "sender", "receiver", "gatherer", "abort", "close")
_FIELDS = {"name": str, "api_version": int, "description": str}


def installed_transports() -> list[EntryPoint]:
    """Returns the transports of all installed distributions, sorted by name."""
    builtin = EntryPoint(GROUP, single_process.NAME, single_process.__name__, CORE)
    return sorted([builtin, *entry_points(GROUP)], key=lambda transport: (transport.name, transport.distribution))


def connect(name: str) -> Transport:
    """Imports and validates the transport of this name, and returns the connection of this process.

    Raises: UnknownTransport, TransportNotInstalled, DuplicateTransport, TransportImportError, TransportApiMismatch,
    TransportUnavailable.
    """
    plugin = _installed(name)
    try:
        with time_limit(IMPORT_SECONDS):
            info = _describe(plugin)
            reason = _guarded(plugin, info.probe, "its probe")
            if reason is not None:
                raise TransportUnavailable(
                    f"transport `{name}` of {plugin.owner} does not work here: {single_line(str(reason))}"
                )
            transport: Any = _guarded(plugin, info.connect, "connecting")
    except TimeLimitReached:
        _raise_broken(plugin, f"it did not respond within {IMPORT_SECONDS:g} seconds")
    missing = next((member for member in _MEMBERS if not hasattr(transport, member)), None)
    if missing is not None:
        _raise_broken(plugin, f"its `connect` gives an object without `{missing}`")
    if not (0 <= transport.rank < transport.size == len(transport.hosts)):
        _raise_broken(plugin, f"it has rank {transport.rank}, size {transport.size} and {len(transport.hosts)} hosts")
    return transport  # type: ignore[no-any-return]


def _installed(name: str) -> EntryPoint:
    installed = installed_transports()
    plugins_of_name = [transport for transport in installed if transport.name == name]
    if len(plugins_of_name) > 1:
        listed = " and ".join(plugin.owner for plugin in plugins_of_name)
        raise DuplicateTransport(f"transport `{name}` is provided by {listed}; uninstall one of the two")
    if plugins_of_name:
        return plugins_of_name[0]
    if name in DISTRIBUTIONS:
        raise TransportNotInstalled(f"transport `{name}` is not installed; run: pip install {DISTRIBUTIONS[name]}")
    names = [transport.name for transport in installed]
    matches = difflib.get_close_matches(name, [*names, *DISTRIBUTIONS], 1)
    hint = f"did you mean `{matches[0]}`? " if matches else ""
    raise UnknownTransport(f"there is no transport {name!r:.80}; {hint}installed: {', '.join(names)}")


def _describe(plugin: EntryPoint) -> TransportInfo:
    action = f"importing `{plugin.value}`"
    hook = _guarded(plugin, lambda: imported_hook(plugin, TransportHooks, "ocannl_transport"), action)
    if hook is None:
        _raise_broken(plugin, f"`{plugin.value}` implements no hook `ocannl_transport`")
    info = _guarded(plugin, lambda: hook(api_version=API_VERSION), action)
    if not isinstance(info, TransportInfo):
        _raise_broken(plugin, f"its hook `ocannl_transport` gives {type(info).__name__}, not TransportInfo")
    values = {field.name: getattr(info, field.name) for field in fields(TransportInfo)}
    if (invalid := invalid_field(values, _FIELDS)) is not None:
        _raise_broken(plugin, f"its description has {invalid} = {values[invalid]!r:.80}")
    if info.api_version != API_VERSION:
        outdated = CORE if info.api_version > API_VERSION else plugin.distribution
        raise TransportApiMismatch(
            f"transport `{plugin.name}` of {plugin.owner} is built for version {info.api_version} of the plugin"
            f" interface, {CORE} for version {API_VERSION}; run: pip install --upgrade {outdated}"
        )
    if info.name != plugin.name:
        _raise_broken(plugin, f"it calls itself `{info.name}`")
    return info


def _guarded(plugin: EntryPoint, call: Callable[[], object], action: str) -> Any:
    """Calls the code of a plugin; whatever it raises becomes an error that names the distribution."""
    try:
        return call()
    except (KeyboardInterrupt, TimeLimitReached):
        raise
    except TransportError as error:
        text = f"transport `{plugin.name}` of {plugin.owner} does not work here: {single_line(str(error))}"
        raise TransportUnavailable(text) from error
    except BaseException as cause:  # another distribution may even exit
        _raise_broken(plugin, f"{action} failed with {exception_summary(cause)}", cause)


def _raise_broken(plugin: EntryPoint, problem: str, cause: BaseException | None = None) -> NoReturn:
    remedy = f"repair it or run: pip uninstall {plugin.distribution}"
    raise TransportImportError(
        f"transport `{plugin.name}` of {plugin.owner} is broken: {single_line(problem)}; {remedy}"
    ) from cause

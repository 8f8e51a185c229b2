"""Operations of installed packages, discovered by metadata and imported lazily, one package at a time."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pluggy

from ocannl.base.entry_points import EntryPoint, entry_points
from ocannl.base.errors import PluginError
from ocannl.base.plugins import PROJECT, exception_summary
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.hookspecs import API_VERSION, GROUP, OperationHooks
from ocannl.lang.declare.use import unused_names


def entry_points_by_name() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of operations, grouped by name."""
    entries = sorted(entry_points(GROUP), key=lambda e: (e.name, e.owner))
    return {name: tuple(group) for name, group in groupby(entries, key=attrgetter("name"))}


def load(entries: tuple[EntryPoint, ...]) -> Any:
    """Imports the operation, or the namespace of operations, of an entry point. Raises: PluginError."""
    entry, *duplicates = entries
    if duplicates:
        owners = " and ".join(entry.owner for entry in entries)
        raise PluginError(f"operations `{entry.name}` are provided by {owners}; uninstall one of them")
    try:
        operations = {call.declaration.title: call for call in _declared(entry)}
    except KeyboardInterrupt:
        raise
    except PluginError as wrong:
        raise _broken_package(entry, str(wrong)) from None
    except BaseException as cause:  # another distribution may even exit
        raise _broken_package(entry, f"importing `{entry.value}` failed with {exception_summary(cause)}") from cause
    misnamed = [title for title in operations if title.split(".")[0] != entry.name]
    if misnamed or not operations:
        listed = ", ".join(f"`{title}`" for title in misnamed) or "nothing"
        raise _broken_package(entry, f"it declares {listed} instead of `{entry.name}`")
    if entry.name in operations:
        return operations[entry.name]
    return SimpleNamespace(**{call.declaration.name: call for call in operations.values()})


def _declared(entry: EntryPoint) -> list[Any]:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(OperationHooks)
    module = entry.load()
    manager.register(module, entry.name)
    manager.check_pending()
    if not manager.hook.ocannl_operations.get_hookimpls():
        raise PluginError(f"`{entry.value}` implements no hook `ocannl_operations`")
    operations = list(manager.hook.ocannl_operations(api_version=API_VERSION))
    for call in operations:
        if not isinstance(getattr(call, "declaration", None), Declaration):
            raise PluginError(f"its hook `ocannl_operations` gives {call!r}, which `oc.defop` has not declared")
    titles = [call.declaration.title for call in operations]
    duplicates = sorted({f"`{title}`" for title in titles if titles.count(title) > 1})
    if duplicates:
        raise PluginError(f"it declares {', '.join(duplicates)} more than once; a name has one declaration")
    unused = unused_names(getattr(module, "__dict__", {}), [call.declaration for call in operations])
    if unused:
        names = ", ".join(f"`{name}`" for name in unused)
        raise PluginError(f"its module declares {names}, which no operation uses; remove what is not needed")
    return operations


def _broken_package(entry: EntryPoint, problem: str) -> PluginError:
    operations = f"operations `{entry.name}` of {entry.owner}"
    return PluginError(f"{operations} are broken: {problem}; repair it or run: pip uninstall {entry.distribution}")

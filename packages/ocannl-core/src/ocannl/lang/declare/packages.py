"""Operations of installed packages: found by metadata, imported one package at a time, when they are asked for."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pluggy

from ocannl.base import plugins
from ocannl.base.errors import PluginError
from ocannl.base.plugins import PROJECT, words
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.hooks import API_VERSION, GROUP, OperationHooks


def names() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of each name."""
    found = sorted(plugins.entries(GROUP), key=lambda e: (e.name, owner(e)))
    return {name: tuple(e for e in found if e.name == name) for name in dict.fromkeys(e.name for e in found)}


def owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"


def load(found: tuple[EntryPoint, ...]) -> Any:
    """The operation of an entry point, or the namespace of operations. Raises: PluginError."""
    entry, *others = found
    if others:
        owners = " and ".join(map(owner, found))
        raise PluginError(f"operations `{entry.name}` are provided by {owners}; uninstall one of them")
    try:
        made = {call.declaration.title: call for call in _declared(entry)}
    except KeyboardInterrupt:
        raise
    except PluginError as wrong:
        raise _broken(entry, str(wrong)) from None
    except BaseException as cause:
        raise _broken(entry, f"importing `{entry.value}` failed with {words(cause)}") from cause
    alien = [title for title in made if title.split(".")[0] != entry.name]
    if alien or not made:
        raise _broken(entry, f"it declares {', '.join(f'`{t}`' for t in alien) or 'nothing'} instead of `{entry.name}`")
    if entry.name in made:
        return made[entry.name]
    return SimpleNamespace(**{call.declaration.name: call for call in made.values()})


def _declared(entry: EntryPoint) -> list[Any]:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(OperationHooks)
    manager.register(entry.load(), entry.name)
    manager.check_pending()
    if not manager.hook.ocannl_operations.get_hookimpls():
        raise PluginError(f"`{entry.value}` implements no hook `ocannl_operations`")
    found = list(manager.hook.ocannl_operations(api_version=API_VERSION))
    for call in found:
        if not isinstance(getattr(call, "declaration", None), Declaration):
            raise PluginError(f"its hook `ocannl_operations` gives {call!r}, which `oc.defop` has not declared")
    return found


def _broken(entry: EntryPoint, what: str) -> PluginError:
    remove = f" or run: pip uninstall {entry.dist.name}" if entry.dist is not None else ""
    return PluginError(f"operations `{entry.name}` of {owner(entry)} are broken: {what}; repair it{remove}")

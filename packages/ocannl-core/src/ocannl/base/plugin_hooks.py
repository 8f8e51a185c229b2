"""Hooks of plugins, whose code belongs to other distributions and may raise anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pluggy

from ocannl.base.entry_points import EntryPoint
from ocannl.base.plugins import PROJECT

MAX_NUMBER = 1_000_000  # of versions, priorities and devices


def imported_hook(entry: EntryPoint, hookspecs: type, name: str) -> Any:
    """Imports the module of a plugin; returns its hook of this name, or None if it implements none."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(entry.load(), entry.name)
    manager.check_pending()
    hook = getattr(manager.hook, name)
    return hook if hook.get_hookimpls() else None


def invalid_field(values: Mapping[str, object], types: Mapping[str, type]) -> str | None:
    """The first field of a descriptor that has another type than `types` says, or is no function if that says none."""
    for field, value in values.items():
        kind = types.get(field)
        is_valid = callable(value) if kind is None else type(value) is kind
        if not is_valid or (isinstance(value, int) and abs(value) > MAX_NUMBER):
            return field
    return None

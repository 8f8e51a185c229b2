"""The hook by which other packages provide operations.

An entry point of the group `ocannl.operations` names a module that implements it; `oc.ops.NAME` loads the module of the
entry point called NAME at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pluggy

from ocannl.base.plugins import PROJECT

GROUP = "ocannl.operations"
API_VERSION = 1
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class OperationHooks:
    """Hooks of a module with operations. Implementations may omit arguments, so later versions can add some."""

    @hookspec(firstresult=True)
    def ocannl_operations(self, api_version: int) -> Iterable[Callable[..., Any]]:  # type: ignore[empty-body]
        """The operations, declared by `oc.defop`: one with the name of the entry point, or several in a namespace of
        that name."""

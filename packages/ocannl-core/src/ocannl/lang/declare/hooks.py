"""The hook by which other packages bring operations.

An entry point of the group `ocannl.operations` names a module that implements it; `oc.ops.NAME` loads the module of the
entry point called NAME, when it is first asked for.
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
    """What such a module implements. An implementation takes the arguments that it wants and leaves out the others, so
    that later versions can give more."""

    @hookspec(firstresult=True)
    def ocannl_operations(self, api_version: int) -> Iterable[Callable[..., Any]]:  # type: ignore[empty-body]
        """The operations, declared by `oc.defop`: one called as the entry point is, or several in a namespace
        that is."""

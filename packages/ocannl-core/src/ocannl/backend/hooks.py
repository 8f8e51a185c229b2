"""The plugin hooks, and the marker that plugins put on their implementations."""

from __future__ import annotations

import pluggy

from ocannl.backend.api import BackendInfo
from ocannl.base.plugins import PROJECT

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class BackendHooks:
    """What a module named by an entry point of the group `ocannl.backends` implements. An implementation takes the
    arguments that it wants and leaves out the others, so that later versions can give more."""

    @hookspec(firstresult=True)
    def ocannl_backend(self, api_version: int) -> BackendInfo:  # type: ignore[empty-body]
        """The description of the backend this distribution provides. `api_version` is the one the core speaks: a plugin
        that speaks several answers in that one."""

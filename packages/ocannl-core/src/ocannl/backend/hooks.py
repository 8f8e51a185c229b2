"""The plugin hooks, and the marker that plugins put on their implementations."""

from __future__ import annotations

import pluggy

from ocannl.backend.api import BackendInfo

PROJECT = "ocannl"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class BackendHooks:
    """What a module named by an entry point of the group `ocannl.backends` implements."""

    @hookspec(firstresult=True)
    def ocannl_backend(self) -> BackendInfo:  # type: ignore[empty-body]
        """The description of the backend this distribution provides."""

"""Hook specifications of backend plugins, and the marker for their implementations."""

from __future__ import annotations

import pluggy

from ocannl.backend.api import BackendInfo
from ocannl.base.plugins import PROJECT

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class BackendHooks:
    """Hooks of the modules named by entry points of the group `ocannl.backends`. An implementation may omit arguments,
    so later versions can pass more."""

    @hookspec(firstresult=True)
    def ocannl_backend(self, api_version: int) -> BackendInfo:  # type: ignore[empty-body]
        """Returns the descriptor of the distribution's backend. `api_version` is the version that the core implements;
        a plugin that supports several versions returns a descriptor for this one."""

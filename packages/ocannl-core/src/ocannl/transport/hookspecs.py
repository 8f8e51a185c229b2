"""Hook specifications of transport plugins, and the marker for their implementations."""

from __future__ import annotations

import pluggy

from ocannl.base.plugins import PROJECT
from ocannl.transport.api import TransportInfo

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class TransportHooks:
    """Hooks of the modules named by entry points of the group `ocannl.transports`. An implementation may omit
    arguments, so later versions can pass more."""

    @hookspec(firstresult=True)
    def ocannl_transport(self, api_version: int) -> TransportInfo:  # type: ignore[empty-body]
        """Returns the descriptor of the distribution's transport. `api_version` is the version that the core
        implements."""

"""The C backend: a descriptor that reserves the name and says that there is nothing behind it yet."""

from __future__ import annotations

from typing import NoReturn

from ocannl.backend import BackendInfo, BackendUnavailable, hookimpl

__all__ = ["ocannl_backend"]

_REASON = "not built yet: this release of ocannl-backend-c only reserves the name"


def _probe() -> str:
    """The reason why the backend cannot be used, on any machine."""
    return _REASON


def _load() -> NoReturn:
    raise BackendUnavailable(f"backend `c` is {_REASON}; `oc.backends()` lists the backends that work here")


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="c",
        api_version=1,  # of the seam that this was written for, not of the one that is installed
        description="C compiled by the system's compiler (not built yet)",
        priority=0,
        probe=_probe,
        load=_load,
    )

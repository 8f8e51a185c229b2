"""The C backend: its description, which costs nothing to make. The compiler runs when there is something to compile."""

from __future__ import annotations

from ocannl.backend import Backend, BackendInfo, BackendUnavailable, hookimpl

__all__ = ["ocannl_backend"]


def _probe() -> str | None:
    """Why the backend cannot be used here, or None: whether there is a compiler, not whether it works."""
    from ocannl_backend_c import toolchain

    try:
        toolchain.command()
    except BackendUnavailable as why:
        return str(why)
    return None


def _load() -> Backend:
    from ocannl_backend_c.backend import CBackend

    return CBackend()


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="c",
        api_version=1,  # of the interface this was written for, never the one that happens to be installed
        description="C, compiled for the processor by the compiler at hand",
        priority=40,
        probe=_probe,
        load=_load,
    )

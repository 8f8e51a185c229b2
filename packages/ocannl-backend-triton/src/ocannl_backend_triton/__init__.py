"""The Triton backend: its description, which costs nothing to make. Triton is imported when the backend is loaded."""

from __future__ import annotations

from ocannl.backend import Backend, BackendInfo, hookimpl

__all__ = ["ocannl_backend"]

def _probe() -> str | None:
    """Why the backend cannot be used here, or None."""
    from ocannl_backend_triton.machine import obstacle

    return obstacle()


def _load() -> Backend:
    from ocannl_backend_triton.backend import TritonBackend
    from ocannl_backend_triton.machine import machine

    return TritonBackend(machine())


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="triton",
        api_version=1,  # of the interface this was written for, never the one that happens to be installed
        description="kernels for graphics processors, through triton",
        priority=20,
        probe=_probe,
        load=_load,
    )

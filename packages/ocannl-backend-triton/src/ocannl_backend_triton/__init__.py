"""The Triton backend's plugin entry point. Triton is imported only when the backend is loaded."""

from __future__ import annotations

from ocannl.backend import Backend, BackendInfo, hookimpl

__all__ = ["ocannl_backend"]

def _probe() -> str | None:
    """Reason why the backend is unavailable, or None."""
    from ocannl_backend_triton.machine import unavailable_reason

    return unavailable_reason()


def _load() -> Backend:
    from ocannl_backend_triton.backend import TritonBackend
    from ocannl_backend_triton.machine import current_machine

    return TritonBackend(current_machine())


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="triton",
        api_version=1,  # the version this package implements, not the installed one
        description="GPU kernels, through Triton",
        priority=20,
        probe=_probe,
        load=_load,
    )

"""The C backend's plugin entry. Importing it is cheap: the compiler is only run to compile programs."""

from __future__ import annotations

from ocannl.backend import Backend, BackendInfo, BackendUnavailable, hookimpl

__all__ = ["ocannl_backend"]


def _probe() -> str | None:
    """Why the backend is unavailable, or None. Checks that a compiler exists, not that it works."""
    from ocannl_backend_c import toolchain

    try:
        toolchain.command()
    except BackendUnavailable as error:
        return str(error)
    return None


def _load() -> Backend:
    from ocannl_backend_c.backend import CBackend

    return CBackend()


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="c",
        api_version=1,  # of the interface this backend implements, not of the installed core
        description="C, compiled for the processor by the compiler at hand",
        priority=40,
        probe=_probe,
        load=_load,
    )

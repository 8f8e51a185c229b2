"""A backend that compiles programs with Numba: an example of native code with vectors, threads and fast calls."""

from __future__ import annotations

from importlib.util import find_spec

from ocannl.backend import Backend, BackendInfo, hookimpl

__all__ = ["ocannl_backend"]


def _probe() -> str | None:
    return None if find_spec("numba") else "numba is not installed"


def _load() -> Backend:
    from ocannl_backend_numba.backend import NumbaBackend

    return NumbaBackend()


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="numba",
        api_version=1,
        api_minor=4,  # adds `Control`, `ThreadPool` and `Frame`, the structures of the calling convention
        description="programs as Python text that Numba compiles: an example for authors of backends",
        priority=-40,
        probe=_probe,
        load=_load,
    )

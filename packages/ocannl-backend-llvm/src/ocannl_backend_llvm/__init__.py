"""The LLVM backend's plugin entry. Importing it is cheap: LLVM is only imported when the backend is loaded."""

from __future__ import annotations

from importlib.util import find_spec

from ocannl.backend import Backend, BackendInfo, hookimpl

__all__ = ["ocannl_backend"]


def _probe() -> str | None:
    """Why the backend is unavailable, or None."""
    if find_spec("llvmlite") is None:
        return "llvmlite is not installed: pip install llvmlite"
    return None


def _load() -> Backend:
    from ocannl_backend_llvm.backend import LlvmBackend

    return LlvmBackend()


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="llvm",
        api_version=1,  # of the interface this backend implements, not of the installed core
        description="just-in-time compiled code for the processor",
        priority=50,
        probe=_probe,
        load=_load,
    )

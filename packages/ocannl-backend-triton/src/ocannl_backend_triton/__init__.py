"""The Triton backend: its description, which costs nothing to make. Triton is imported when the backend is loaded."""

from __future__ import annotations

import os
from importlib.util import find_spec

from ocannl.backend import Backend, BackendInfo, hookimpl

__all__ = ["ocannl_backend"]

INTERPRET = "TRITON_INTERPRET"


def _probe() -> str | None:
    """Why the backend cannot be used here, or None."""
    if find_spec("triton") is None:
        return "triton is not installed: pip install ocannl-backend-triton[triton]"
    if os.environ.get(INTERPRET) != "1":
        return f"there is no graphics processor here; with {INTERPRET}=1 set, kernels run in triton's interpreter"
    return None


def _load() -> Backend:
    from ocannl_backend_triton.backend import TritonBackend

    return TritonBackend()


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

"""The example backend: programs as Python text, a backend small enough to read in one sitting."""

from __future__ import annotations

from ocannl.backend import Backend, BackendInfo, hookimpl

__all__ = ["ocannl_backend"]


def _load() -> Backend:
    from ocannl_backend_example.backend import ExampleBackend

    return ExampleBackend()


@hookimpl
def ocannl_backend() -> BackendInfo:
    return BackendInfo(
        name="example",
        api_version=1,  # of the interface this backend implements, not of the installed core
        description="programs as Python text: slow, and easy to read",
        priority=-50,
        probe=lambda: None,  # works wherever Python does
        load=_load,
        api_minor=3,  # declares a setting
    )

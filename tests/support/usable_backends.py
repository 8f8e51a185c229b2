"""The backends whose results are compared, as far as they work on this machine."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec


def usable_backends() -> list[str]:
    return ["numpy", *filter(is_usable, ("llvm", "c"))]


def is_usable(name: str) -> bool:
    module = f"ocannl_backend_{name}"
    return find_spec(module) is not None and import_module(module).ocannl_backend().probe() is None

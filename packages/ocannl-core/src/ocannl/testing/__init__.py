"""What judges the rest: oracles, generators of programs, and the conformance kit."""

from __future__ import annotations

from typing import Any

__all__ = ["GradientMismatch", "gradcheck"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from ocannl.testing import gradients

        return getattr(gradients, name)
    raise AttributeError(f"module 'ocannl.testing' has no attribute {name!r}")

"""Testing tools: oracles, generators of random programs, and the conformance kit for backends."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocannl.testing.gradients import GradientMismatch, gradcheck
    from ocannl.testing.operations import check_operation

__all__ = ["GradientMismatch", "check_operation", "gradcheck"]
_IN = {"GradientMismatch": "gradients", "check_operation": "operations", "gradcheck": "gradients"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _IN:
            return getattr(importlib.import_module(f"ocannl.testing.{_IN[name]}"), name)
        raise AttributeError(f"module 'ocannl.testing' has no attribute {name!r}")

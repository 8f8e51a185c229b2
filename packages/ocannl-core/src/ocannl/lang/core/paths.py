"""Unique parameter paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


def unique(paths: Mapping[Tensor, str]) -> Mapping[str, Tensor]:
    """Parameters by path; a repeated path gets `_2`, `_3`, ..."""
    out: dict[str, Tensor] = {}
    for t, path in paths.items():
        name, n = path, 2
        while name in out:
            name, n = f"{path}_{n}", n + 1
        out[name] = t
    return out

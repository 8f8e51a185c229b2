"""Unique parameter paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def unique(paths: Mapping[T, str]) -> Mapping[str, T]:
    """Parameters by path; a repeated path gets `_2`, `_3`, ..."""
    out: dict[str, T] = {}
    for t, path in paths.items():
        name, n = path, 2
        while name in out:
            name, n = f"{path}_{n}", n + 1
        out[name] = t
    return out

"""Converts user labels to identifiers that are valid in every target language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

MAX_LENGTH = 64
MAX_BASE_LENGTH = MAX_LENGTH - 8  # leaves room for a numeric suffix
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


@lru_cache(maxsize=1 << 14)  # more than the names of a step of twelve layers
def identifier(text: str, fallback: str = "n") -> str:
    """`text` reduced to letters, digits and underscores, not beginning with a digit, at most `MAX_LENGTH` long."""
    safe = _UNSAFE.sub("_", text).strip("_")[:MAX_LENGTH].rstrip("_")
    if not safe:
        return fallback
    return f"_{safe}" if safe[0].isdigit() else safe


class Namer:
    """Generates unique identifiers: `w`, `w_2`, `w_3`, ..."""

    __slots__ = ("_next", "_taken")

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken: set[str] = set(reserved)
        self._next: dict[str, int] = {}

    def __call__(self, text: str, fallback: str = "n") -> str:
        base = identifier(text, fallback)
        name, n = base, self._next.get(base, 2)
        if name in self._taken:
            prefix = base[:MAX_BASE_LENGTH]
            while name in self._taken:
                name, n = f"{prefix}_{n}", n + 1
        self._next[base] = n
        self._taken.add(name)
        return name

"""Names: from whatever users write to identifiers that are safe in any target language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

LONGEST = 64
ROOM = LONGEST - 8  # of a name that gets a number: the whole is still no longer
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


@lru_cache(maxsize=4096)
def identifier(text: str, fallback: str = "n") -> str:
    """`text` as letters, digits and underscores, not beginning with a digit, of bounded length: never anything else."""
    safe = _UNSAFE.sub("_", text).strip("_")[:LONGEST].rstrip("_")
    if not safe:
        return fallback
    return f"_{safe}" if safe[0].isdigit() else safe


class Namer:
    """Hands out identifiers, each once: `w`, `w_2`, `w_3`, ..."""

    __slots__ = ("_next", "_taken")

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken: set[str] = set(reserved)
        self._next: dict[str, int] = {}

    def __call__(self, text: str, fallback: str = "n") -> str:
        base = identifier(text, fallback)
        name, n = base, self._next.get(base, 2)
        while name in self._taken:
            name, n = f"{base[:ROOM]}_{n}", n + 1
        self._next[base] = n
        self._taken.add(name)
        return name

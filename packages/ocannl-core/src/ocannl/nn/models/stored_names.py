"""Names of weights in files of other programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

StoredName = str | tuple[str, int, int]
"""The name of an array, or of its n-th of several equal parts."""


def stored_name(
    outside: Mapping[str, StoredName], inside: Mapping[str, StoredName], prefix: str
) -> Callable[[str], StoredName]:
    """A function from paths to names: `outside` of layers, and `inside` of them, after the prefix with their number."""

    def name(path: str) -> StoredName:
        found = re.search(r"\blayer(?:_(\d+))?\.(.+)", path)
        if found is None:
            return outside[path]
        inner = inside[found[2]]
        start = prefix.format(int(found[1] or 1) - 1)
        return f"{start}{inner}" if isinstance(inner, str) else (f"{start}{inner[0]}", *inner[1:])

    return name


def pairs(ours: str, theirs: str, weight: str = "w") -> dict[str, StoredName]:
    """The names of a weight and of its bias: `{}` in `ours` stands for `w` or `b`, and `{}` in `theirs` for `weight`
    or `bias`."""
    return {ours.format(weight): theirs.format("weight"), ours.format("b"): theirs.format("bias")}

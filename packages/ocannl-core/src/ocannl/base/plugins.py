"""What distributions announce by entry points, read from their metadata alone: nothing of a plugin is imported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ocannl.base.log import logger

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROJECT = "ocannl"  # of the markers of pluggy
_log = logger("base.plugins")


def entries(group: str) -> list[EntryPoint]:
    """The entry points of a group, of installed distributions; the first distribution of a name counts."""
    from importlib.metadata import distributions

    found: dict[str, list[EntryPoint]] = {}
    for dist in distributions():
        try:
            if group not in (dist.read_text("entry_points.txt") or ""):
                continue
            name = re.sub(r"[-_.]+", "-", dist.name).lower()
            ours = [entry for entry in dist.entry_points if entry.group == group]
            odd = [entry for entry in ours if not f"{entry.name}{entry.value}".isprintable()]
        except Exception as wrong:  # damaged, or being uninstalled
            _log.warning("the metadata of an installed distribution is passed over: %s", words(wrong))
            continue
        if odd:
            _log.warning("%s is passed over: it announces %r in `%s`", name, odd[0].name, group)
        else:
            found.setdefault(name, ours)
    return [entry for ours in found.values() for entry in ours]


def words(cause: BaseException) -> str:
    """What an exception says, in one line."""
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__

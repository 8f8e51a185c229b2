"""Entry points of installed distributions, read from metadata without importing plugins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ocannl.base.log import logger

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROJECT = "ocannl"  # project name of the pluggy markers
_log = logger("base.plugins")


def entry_points(group: str) -> list[EntryPoint]:
    """Returns the entry points of a group; of several distributions with the same name, the first takes precedence."""
    from importlib.metadata import distributions

    by_distribution: dict[str, list[EntryPoint]] = {}
    for dist in distributions():
        try:
            if group not in (dist.read_text("entry_points.txt") or ""):
                continue
            name = re.sub(r"[-_.]+", "-", dist.name).lower()
            points = [entry for entry in dist.entry_points if entry.group == group]
            unprintable = [entry for entry in points if not f"{entry.name}{entry.value}".isprintable()]
        except Exception as error:  # damaged metadata, or an uninstallation in progress
            _log.warning("the metadata of an installed distribution is passed over: %s", exception_summary(error))
            continue
        if unprintable:
            _log.warning("%s is passed over: it announces %r in `%s`", name, unprintable[0].name, group)
        else:
            by_distribution.setdefault(name, points)
    return [entry for points in by_distribution.values() for entry in points]


def exception_summary(cause: BaseException) -> str:
    """Formats an exception in one line."""
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__

"""Entry points of installed distributions, read from metadata without importing plugins."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from ocannl.base.log import logger

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

PROJECT = "ocannl"  # project name of the pluggy markers
MAX_CHARACTERS = 600
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
DISTRIBUTION_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")
HEADER = re.compile(r"^(Name|Version):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_log = logger("base.plugins")


def entry_points(group: str) -> list[EntryPoint]:
    """Returns the entry points of a group; of several distributions with the same name, the first takes precedence."""
    from importlib.metadata import distributions

    by_distribution: dict[str, list[EntryPoint]] = {}
    for dist in distributions():
        try:
            if group not in (dist.read_text("entry_points.txt") or ""):
                continue
            name = re.sub(r"[-_.]+", "-", identity(dist)[0]).lower()
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


@lru_cache(maxsize=1 << 10)
def identity(dist: Distribution) -> tuple[str, str]:
    """The name and the version of a distribution: the headers alone, since parsing all metadata takes ten times as
    long. Raises: ValueError for a name that no distribution can have."""
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or ""
    headers = dict(HEADER.findall(text.partition("\n\n")[0]))
    name = headers.get("Name", "")
    if not DISTRIBUTION_NAME.fullmatch(name):
        raise ValueError(f"{single_line(repr(name), 80)} is no name of a distribution")
    return name, single_line(headers.get("Version", "?"), 80)


def exception_summary(cause: BaseException) -> str:
    """Formats an exception in one line."""
    try:
        text = single_line(str(cause))
    except BaseException:  # of the code of another distribution
        text = "its text cannot be printed"
    return f"{single_line(type(cause).__name__)}: {text}" if text else single_line(type(cause).__name__)


def single_line(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Returns a text of another distribution, fit for a terminal: in one line of bounded length, without control
    characters and marks that change the direction of text."""
    joined = " ".join(text[: 4 * limit].split())
    printable = "".join(character if character.isprintable() else REPLACEMENT for character in joined)
    return printable if len(printable) <= limit else f"{printable[: limit - 4]} ..."

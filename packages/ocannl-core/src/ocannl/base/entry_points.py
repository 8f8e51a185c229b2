"""Entry points of installed distributions in the groups of ocannl, read from metadata without importing plugins.

Reading the metadata of all distributions may take longer than the rest of the start of a process. The entry points of
each folder of `sys.path` are therefore kept in the cache of the user, with the state of the folder, which changes with
every installation, and of the metadata that announces them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from dataclasses import astuple, dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ocannl.base.disk_cache import Cache, Record, open_cache
from ocannl.base.file_access import file_states
from ocannl.base.log import logger
from ocannl.base.plugins import exception_summary, single_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PREFIX = "ocannl."  # of the groups
UNKNOWN = "an unknown distribution"
FORMAT = "entry points 1"
SETTLED_SECONDS = 2.0  # a folder may change twice within one tick of the clock of its file system
DISTRIBUTION_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")
HEADER = re.compile(r"^(Name|Version):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
METADATA_FOLDER = re.compile(r"(^|\.)(dist-info|egg-info)$", re.IGNORECASE)  # or a file, of old installations
METADATA_FILES = ("entry_points.txt", "METADATA", "PKG-INFO")
_log = logger("base.entry_points")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An object that a distribution announces: `value` is `module` or `module:attribute`. `folder` has the metadata of
    the distribution, unless that is in an archive."""

    group: str
    name: str
    value: str
    distribution: str = UNKNOWN
    version: str = ""
    folder: str | None = None

    def load(self) -> Any:
        """Imports the module and returns the object."""
        return resolve_name(self.value.partition("[")[0].strip())

    @property
    def owner(self) -> str:
        """The distribution with its version."""
        return f"{self.distribution} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class _Announcements:
    """What the distributions in a folder announce, and the problems of their metadata."""

    entries: tuple[EntryPoint, ...]
    problems: tuple[str, ...]


def entry_points(group: str) -> list[EntryPoint]:
    """Returns the entry points of a group; of several distributions with the same name, the first takes precedence."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    cache = open_cache("entry-points") if finders == [PathFinder] else None  # others may find them anywhere
    result: list[EntryPoint] = []
    owners: dict[str, tuple[str, str | None]] = {}
    for folder in dict.fromkeys(map(os.path.abspath, sys.path)):
        announcements = _cached(cache, folder) if cache else _scanned(folder)[0]
        for problem in announcements.problems:
            _log.warning("the metadata of an installed distribution is passed over: %s", problem)
        for entry in announcements.entries:
            owner = entry.version, entry.folder
            if entry.group == group and owners.setdefault(_normalized(entry.distribution), owner) == owner:
                result.append(entry)
    return result


def identity(dist: Distribution) -> tuple[str, str]:
    """The name and the version of a distribution: the headers alone, since parsing all metadata takes ten times as
    long. Raises: ValueError for a name that no distribution can have."""
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or ""
    headers = dict(HEADER.findall(text.partition("\n\n")[0]))
    name = headers.get("Name", "")
    if not DISTRIBUTION_NAME.fullmatch(name):
        raise ValueError(f"{single_line(repr(name), 80)} is no name of a distribution")
    return name, single_line(headers.get("Version", "?"), 80)


def _cached(cache: Cache, folder: str) -> _Announcements:
    """The announcements of a folder, or of an archive, from the cache unless it has changed."""
    try:
        status = os.stat(folder)
        names = sorted(filter(METADATA_FOLDER.search, os.listdir(folder))) if os.path.isdir(folder) else [folder]
    except (OSError, ValueError):
        names = []
    if not names:
        return _Announcements((), ())
    key = hashlib.sha256(json.dumps([FORMAT, folder, names, status.st_mtime_ns, status.st_ino]).encode()).hexdigest()
    record = cache.load(key)
    if record is not None and (cached := _from_tree(record.header)) is not None:
        return cached
    announcements, files = _scanned(folder)
    if time.time() - status.st_mtime > SETTLED_SECONDS:
        entries = [astuple(entry) for entry in announcements.entries]
        tree: dict[str, object] = {"entries": entries, "problems": announcements.problems, "states": file_states(files)}
        cache.store(key, Record(tree, b""))
    return announcements


def _from_tree(tree: dict[str, object]) -> _Announcements | None:
    """The announcements of a record of the cache; None if metadata has changed since."""
    try:
        states = [tuple(state) for state in tree["states"]]  # type: ignore[attr-defined]
        if states != file_states([path for path, *_ in states]):
            return None
        entries = tuple(EntryPoint(*fields) for fields in tree["entries"])  # type: ignore[attr-defined]
        return _Announcements(entries, tuple(tree["problems"]))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        return None


def _scanned(folder: str) -> tuple[_Announcements, list[str]]:
    """Reads the metadata in a folder. Returns the announcements and the files that they depend on."""
    from importlib.metadata import distributions  # its import takes longer than a search in the cache

    entries: list[EntryPoint] = []
    problems: list[str] = []
    files: list[str] = []
    for dist in distributions(path=[folder]):
        location = getattr(dist, "_path", None)
        metadata = str(location) if isinstance(location, Path) else None
        try:
            if PREFIX not in (dist.read_text("entry_points.txt") or ""):
                continue
            announced = _announced(dist, metadata)
        except Exception as error:  # damaged metadata, or an uninstallation in progress
            problems.append(exception_summary(error))
        else:
            entries += announced
        files += [os.path.join(metadata, file) for file in METADATA_FILES] if metadata else []
    return _Announcements(tuple(entries), tuple(problems)), files


def _announced(dist: Distribution, metadata: str | None) -> list[EntryPoint]:
    """Raises: ValueError, and others for damaged metadata."""
    name, version = identity(dist)
    points = [point for point in dist.entry_points if point.group.startswith(PREFIX)]
    unprintable = [point for point in points if not f"{point.name}{point.value}".isprintable()]
    if unprintable:
        raise ValueError(f"{name} announces {unprintable[0].name!r} in `{unprintable[0].group}`")
    return [EntryPoint(point.group, point.name, point.value, name, version, metadata) for point in points]


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

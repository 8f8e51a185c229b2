"""Compiled code on disk: content-addressed, verified before it is used, never a reason to fail.

A record is a header in JSON and the bytes that the backend made. Its file is named by the key that it is found by and
the sha256 of everything in it, and appears whole or not at all. Whatever is wrong with a record, its file or its folder
makes a miss and a warning. The folder belongs to the user alone: bytes that somebody else could have written are not
loaded. Records that have not been used for longest make room for new ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ocannl.base.config import CACHE, CACHE_DIR, user_cache_folder
from ocannl.base.log import logger

MAGIC = b"ocannl-cache-1\n"
_LENGTH = 8  # bytes that say how long the header is
_STALE_SECONDS = 3600  # after which a temporary file has lost its writer
_ROOM = 32  # records in each of the 256 folders
_log = logger("runtime.cache")


@dataclass(frozen=True, slots=True)
class Record:
    header: dict[str, object]
    blob: bytes


@dataclass(frozen=True, slots=True)
class Cache:
    """One private folder of records."""

    folder: Path

    def load(self, key: str) -> Record | None:
        for path in self._paths(key):
            try:
                record = _checked(path, key)
            except (OSError, ValueError, RecursionError) as wrong:
                _log.warning("a damaged record of compiled code is left out and removed: %s: %s", path, wrong)
                with suppress(OSError):
                    path.unlink()
            else:
                with suppress(OSError):
                    os.utime(path)  # it was used
                return record
        return None

    def store(self, key: str, record: Record) -> None:
        header = json.dumps(record.header, separators=(",", ":")).encode()
        content = b"".join([MAGIC, len(header).to_bytes(_LENGTH, "little"), header, record.blob])
        place = self.folder / key[:2]
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            _require_private(place)
            _sweep(place)
            _write_whole(place / _name(key, content), content)
        except OSError as wrong:
            _log.warning("compiled code could not be kept: %s", wrong)

    def _paths(self, key: str) -> list[Path]:
        place = self.folder / key[:2]
        try:
            _require_private(place)
            return sorted(place / name for name in os.listdir(place) if name.startswith(f"{key}."))
        except FileNotFoundError:
            return []
        except OSError as wrong:
            _log.warning("the cache of compiled code is not used: %s", wrong)
            return []


def open_cache(kind: str = "code") -> Cache | None:
    """The folder of such records that the settings ask for; None when they ask for none, or it cannot be trusted."""
    if not CACHE.get():
        return None
    folder = (CACHE_DIR.get() or user_cache_folder()) / kind
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_private(folder)
    except OSError as wrong:
        _log.warning("the cache of compiled code is not used: %s", wrong)
        return None
    return Cache(folder)


def _name(key: str, content: bytes) -> str:
    return f"{key}.{hashlib.sha256(content).hexdigest()}"


def _require_private(path: Path) -> None:
    """That the path is no link, and that nobody else can write it."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError(f"{path} is a link")
    if hasattr(os, "geteuid"):
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o022:
            raise PermissionError(f"{path} can be written by others; run: chmod 700 {path}")


def _checked(path: Path, key: str) -> Record:
    _require_private(path)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError("it is no file")
    content = path.read_bytes()
    if path.name != _name(key, content):
        raise ValueError("its content is not what its name says")
    start = len(MAGIC) + _LENGTH
    if not content.startswith(MAGIC) or len(content) < start:
        raise ValueError("it is no record")
    end = start + int.from_bytes(content[len(MAGIC) : start], "little")
    header = json.loads(content[start:end].decode())
    if not isinstance(header, dict) or end > len(content):
        raise ValueError("its header is broken")
    return Record(header, content[end:])


def _write_whole(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _sweep(place: Path) -> None:
    """Removes what writers that were killed left behind, and the records that have not been used for longest."""
    now = time.time()
    records: list[tuple[float, str]] = []
    for entry in os.scandir(place):
        with suppress(OSError):
            used = entry.stat(follow_symlinks=False).st_mtime
            if not entry.name.startswith(".new-"):
                records.append((used, entry.path))
            elif now - used > _STALE_SECONDS:
                os.unlink(entry.path)
    for _, path in sorted(records)[: max(0, len(records) - _ROOM + 1)]:
        with suppress(OSError):
            os.unlink(path)

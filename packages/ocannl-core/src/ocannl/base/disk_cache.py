"""The on-disk compilation cache: content-addressed, verified on load, and never a cause of failure.

A record consists of a JSON header and the backend's blob. Its file name contains the key and the SHA-256 of the
content; files are written atomically. Any problem with a record, its file or its folder is a cache miss with a warning.
The folder is private to the user: files that others could have written are not loaded. Eviction is LRU.
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
HEADER_LENGTH_BYTES = 8  # size of the header's length field
STALE_SECONDS = 3600  # age at which a temporary file counts as abandoned
RECORDS_PER_FOLDER = 32  # there are 256 folders
_log = logger("base.disk_cache")


@dataclass(frozen=True, slots=True)
class Record:
    header: dict[str, object]
    blob: bytes


@dataclass(frozen=True, slots=True)
class Cache:
    """A private folder of records."""

    folder: Path

    def load(self, key: str) -> Record | None:
        for path in self._paths(key):
            try:
                record = _read_verified(path, key)
            except (OSError, ValueError, RecursionError) as error:
                _log.warning("a damaged record of compiled code is left out and removed: %s: %s", path, error)
                with suppress(OSError):
                    path.unlink()
            else:
                with suppress(OSError):
                    os.utime(path)  # for LRU eviction
                return record
        return None

    def store(self, key: str, record: Record) -> None:
        header = json.dumps(record.header, separators=(",", ":")).encode()
        content = b"".join([MAGIC, len(header).to_bytes(HEADER_LENGTH_BYTES, "little"), header, record.blob])
        folder = self.folder / key[:2]
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            require_private(folder)
            _evict(folder)
            write_atomically(folder / _name(key, content), content)
        except OSError as error:
            _log.warning("compiled code could not be kept: %s", error)

    def _paths(self, key: str) -> list[Path]:
        folder = self.folder / key[:2]
        try:
            require_private(folder)
            return sorted(folder / name for name in os.listdir(folder) if name.startswith(f"{key}."))
        except FileNotFoundError:
            return []
        except OSError as error:
            _log.warning("the cache of compiled code is not used: %s", error)
            return []


def open_cache(kind: str = "code") -> Cache | None:
    """Opens the cache folder for a kind of records; None if caching is disabled or the folder is not private."""
    if not CACHE.get():
        return None
    folder = (CACHE_DIR.get() or user_cache_folder()) / kind
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private(folder)
    except OSError as error:
        _log.warning("the cache of compiled code is not used: %s", error)
        return None
    return Cache(folder)


def _name(key: str, content: bytes) -> str:
    return f"{key}.{hashlib.sha256(content).hexdigest()}"


def require_private(path: Path) -> None:
    """Raises `PermissionError` if the path is a symbolic link or other users can write to it."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(f"{path} is a link")
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        if stat.S_IMODE(status.st_mode) & 0o022:
            raise PermissionError(f"{path} can be written by others; run: chmod 700 {path}")


def _read_verified(path: Path, key: str) -> Record:
    require_private(path)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError("it is not a regular file")
    content = path.read_bytes()
    if path.name != _name(key, content):
        raise ValueError("its content does not match its name")
    start = len(MAGIC) + HEADER_LENGTH_BYTES
    if not content.startswith(MAGIC) or len(content) < start:
        raise ValueError("it is not a cache entry")
    end = start + int.from_bytes(content[len(MAGIC) : start], "little")
    header = json.loads(content[start:end].decode())
    if not isinstance(header, dict) or end > len(content):
        raise ValueError("its header is damaged")
    return Record(header, content[end:])


def write_atomically(path: Path, content: bytes) -> None:
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


def _evict(folder: Path) -> None:
    """Removes abandoned temporary files and the least recently used records."""
    now = time.time()
    records: list[tuple[float, str]] = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            used = entry.stat(follow_symlinks=False).st_mtime
            if not entry.name.startswith(".new-"):
                records.append((used, entry.path))
            elif now - used > STALE_SECONDS:
                os.unlink(entry.path)
    for _, path in sorted(records)[: max(0, len(records) - RECORDS_PER_FOLDER + 1)]:
        with suppress(OSError):
            os.unlink(path)

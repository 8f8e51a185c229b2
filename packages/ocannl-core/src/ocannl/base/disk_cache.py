"""The on-disk compilation cache: content-addressed, verified on load, and never a cause of failure.

A record consists of a JSON header and the backend's blob. Its file name contains the key, the SHA-256 of the content,
and the generation of the cache, such as a fingerprint of the compiler; files are written atomically. Any problem with a
record, its file or its folder is a cache miss with a warning. The folder is private to the user (`private_folder`).
If the cache exceeds its limit, records of other generations are evicted first, then the least recently used ones.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ocannl.base.config import CACHE, CACHE_BYTES, CACHE_DIR, user_cache_folder
from ocannl.base.log import logger
from ocannl.base.private_folder import TEMPORARY, PrivateFolder, open_private_folder

MAGIC = b"ocannl-cache-1\n"
HEADER_LENGTH_BYTES = 8  # size of the header's length field
STALE_SECONDS = 3600  # age at which a temporary file counts as abandoned
RECORDS_PER_FOLDER = 32  # there are 256 folders
PARTS_OF_LIMIT = 16  # a process measures the folder again after storing a part; an eviction frees a part
TRANSIENT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)  # the record is not to blame
_log = logger("base.disk_cache")
_warned: set[str] = set()
_unmeasured_bytes: dict[tuple[Path, str], int] = {}  # that may be stored in a folder before it is measured again


@dataclass(frozen=True, slots=True)
class Record:
    header: dict[str, object]
    blob: bytes


@dataclass(frozen=True, slots=True)
class Cache:
    """The folder of one kind of records."""

    root: Path
    kind: str
    generation: str

    def load(self, key: str) -> Record | None:
        try:
            with (
                open_private_folder(self.root, self.kind) as records,
                records.subfolder(key[:2]) as folder,
            ):
                return self._load(folder, key)
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn("the cache of compiled code is not used", _reason(error))
            return None

    def _load(self, folder: PrivateFolder, key: str) -> Record | None:
        for name in sorted(name for name in folder.names() if _name_key(name) == key):
            try:
                record = read_verified(folder, name, key)
            except (OSError, ValueError, RecursionError) as error:
                _warn("a damaged record of compiled code is left out", _reason(error, folder.path / name))
                if getattr(error, "errno", None) not in TRANSIENT:
                    with suppress(OSError):
                        folder.remove(name)
            else:
                with suppress(OSError):
                    folder.touch(name)  # for LRU eviction
                return record
        return None

    def store(self, key: str, record: Record) -> None:
        header = json.dumps(record.header, separators=(",", ":")).encode()
        content = b"".join([MAGIC, len(header).to_bytes(HEADER_LENGTH_BYTES, "little"), header, record.blob])
        limit_bytes = CACHE_BYTES.get()
        if len(content) > limit_bytes:
            _log.debug("compiled code is not kept: %d bytes are more than the cache may have", len(content))
            return
        try:
            with open_private_folder(self.root, self.kind, create=True) as records:
                with records.subfolder(key[:2], create=True) as folder:
                    name = _name(key, content, self.generation)
                    folder.write(name, content)
                    self._evict(folder, name)
                self._keep_below(limit_bytes, records, len(content))
        except OSError as error:
            _warn("compiled code could not be kept", _reason(error))

    def _evict(self, folder: PrivateFolder, stored: str) -> None:
        """Removes abandoned temporary files, the records that `stored` replaces, and those for which there is no place
        beside it."""
        records = sorted(
            (_name_key(name) == _name_key(stored), self._rank(name, status), name)
            for name, status in _swept(folder)
            if name != stored
        )
        replaced = [name for has_same_key, _, name in records if has_same_key]
        surplus = [name for *_, name in records[: max(0, len(records) - len(replaced) - RECORDS_PER_FOLDER + 1)]]
        for name in replaced + surplus:
            with suppress(OSError):
                folder.remove(name)

    def _keep_below(self, limit_bytes: int, records: PrivateFolder, stored_bytes: int) -> None:
        """Evicts records if all of them together exceed the limit. The folders are measured by the first store of a
        process, and again when it has stored a part of the limit."""
        cache = (self.root, self.kind)
        _unmeasured_bytes[cache] = _unmeasured_bytes.get(cache, 0) - stored_bytes
        if _unmeasured_bytes[cache] >= 0:
            return
        ranked: list[tuple[tuple[bool, float], str, str, int]] = []
        for shard, _ in records.entries():
            with suppress(OSError), records.subfolder(shard) as folder:
                ranked += [(self._rank(n, s), shard, n, s.st_size) for n, s in _swept(folder)]
        total_bytes = sum(size for *_, size in ranked)
        part_bytes = limit_bytes // PARTS_OF_LIMIT
        if total_bytes > limit_bytes:
            for _, shard, name, size in sorted(ranked):
                with suppress(OSError), records.subfolder(shard) as folder:
                    folder.remove(name)
                    total_bytes -= size
                if total_bytes <= limit_bytes - part_bytes:
                    break
        _unmeasured_bytes[cache] = max(0, min(part_bytes, limit_bytes - total_bytes))

    def _rank(self, name: str, status: os.stat_result) -> tuple[bool, float]:
        """Records of the lowest rank are evicted first."""
        return _generation(name) == self.generation, status.st_mtime


def open_cache(kind: str = "code", generation: str = "") -> Cache | None:
    """Opens the cache folder for a kind of records; None if caching is disabled or the folder is not private."""
    if not CACHE.get():
        return None
    root = cache_root()
    try:
        with open_private_folder(root, kind, create=True):
            return Cache(root, kind, generation)
    except OSError as error:
        _warn("the cache of compiled code is not used", _reason(error))
        return None


def cache_root() -> Path:
    """Returns the folder that contains all caches."""
    return CACHE_DIR.get() or user_cache_folder()


def read_verified(folder: PrivateFolder, name: str, key: str) -> Record:
    """Reads a record. Raises `OSError` or `ValueError` if it is not what was stored."""
    content = folder.read(name)
    if name != _name(key, content, _generation(name)):
        raise ValueError("its content does not match its name")
    start = len(MAGIC) + HEADER_LENGTH_BYTES
    if not content.startswith(MAGIC) or len(content) < start:
        raise ValueError("it is not a cache entry")
    end = start + int.from_bytes(content[len(MAGIC) : start], "little")
    header = json.loads(content[start:end].decode())
    if not isinstance(header, dict) or end > len(content):
        raise ValueError("its header is damaged")
    return Record(header, content[end:])


def _name(key: str, content: bytes, generation: str) -> str:
    digest = f"{key}.{hashlib.sha256(content).hexdigest()}"
    return f"{digest}.{generation}" if generation else digest


def _name_key(name: str) -> str:
    return name.partition(".")[0]


def _generation(name: str) -> str:
    return name.partition(".")[2].partition(".")[2]


def _swept(folder: PrivateFolder) -> list[tuple[str, os.stat_result]]:
    """Removes abandoned temporary files; returns the records with their status."""
    entries, now = folder.entries(), time.time()
    for name, status in entries:
        if name.startswith(TEMPORARY) and now - status.st_mtime > STALE_SECONDS:
            with suppress(OSError):
                folder.remove(name)
    return [(name, status) for name, status in entries if not name.startswith(TEMPORARY)]


def _reason(error: BaseException, path: Path | None = None) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{path or error.filename}: {error.strerror}"
    return f"{path}: {error}" if path else str(error)


def _warn(problem: str, reason: str) -> None:
    """Logs a kind of problem once per process; the next ones only for debugging."""
    if problem in _warned:
        _log.debug("%s: %s", problem, reason)
        return
    _warned.add(problem)
    _log.warning("%s: %s", problem, reason)

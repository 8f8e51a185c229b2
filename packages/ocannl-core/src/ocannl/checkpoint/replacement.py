"""Atomic and durable replacement of files, with the last few versions kept.

A file is written in a temporary folder beside its place, synchronized, and renamed. Processes that replace files of one
folder take turns by a lock of the folder, so that temporary folders which are found belong to processes that were
killed, and are removed.

    model.safetensors -> model-00000300.safetensors      the pointer to the latest version, a relative link
    model-00000200.safetensors
    model-00000300.safetensors
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

SUFFIX = ".tmp"
DIGITS = 8
MAX_PREFIX = 40  # characters of a name in that of its temporary folder


def replace(path: Path, write: Callable[[Path], None], *, keep: int = 1, number: int | None = None) -> None:
    """Replaces a file by one that `write` writes: after any failure the file is as before.

    With `keep` > 1 the file is a version with a number, by default the next one, and `path` becomes a link to it; the
    last `keep` versions remain. A path that is a link to another place is followed.
    Raises: OSError, and the errors of `write`.
    """
    versions = _Versions(path)
    if keep == 1 and not versions.has_pointer:
        path = Path(os.path.realpath(path))
    with _locked(path.parent), _temporary_folder(path) as folder:
        new = folder / "new"
        write(new)
        target = path
        if keep > 1 or versions.has_pointer:
            target = versions.path_of(versions.next_number() if number is None else number)
        os.chmod(new, _mode_of(target, folder))
        os.replace(new, target)
        if target is not path:
            os.symlink(target.name, folder / "pointer")
            os.replace(folder / "pointer", path)
        _synchronize(path.parent)
        if target is not path:
            versions.prune(keep, target)


class _Versions:
    """The numbered versions of a file, `model-00000012.safetensors` of `model.safetensors`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pattern = re.compile(rf"{re.escape(path.stem)}-(\d+){re.escape(path.suffix)}")

    @property
    def has_pointer(self) -> bool:
        return self.path.is_symlink() and bool(self._pattern.fullmatch(os.readlink(self.path)))

    def path_of(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}-{number:0{DIGITS}d}{self.path.suffix}")

    def _numbers(self) -> dict[str, int]:
        names = ((name, self._pattern.fullmatch(name)) for name in os.listdir(self.path.parent))
        return {name: int(match[1]) for name, match in names if match}

    def next_number(self) -> int:
        return max(self._numbers().values(), default=-1) + 1

    def prune(self, keep: int, latest: Path) -> None:
        """Removes all versions but the latest and the `keep - 1` that were written before it."""
        versions = []
        for name, number in self._numbers().items():
            with suppress(OSError):
                written = os.lstat(self.path.with_name(name)).st_mtime_ns
                versions.append((name != latest.name, -written, -number, name))
        for *_, name in sorted(versions)[keep:]:
            with suppress(OSError):
                os.unlink(self.path.with_name(name))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Excludes other processes and threads that replace files of a folder, where the system can lock folders."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """A folder beside a file, for its new version. Removes folders that killed processes have left."""
    prefix = f".{path.name[:MAX_PREFIX]}."
    for name in os.listdir(path.parent):
        if name.startswith(prefix) and name.endswith(SUFFIX):
            shutil.rmtree(path.with_name(name), ignore_errors=True)
    folder = Path(tempfile.mkdtemp(SUFFIX, prefix, path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _mode_of(path: Path, folder: Path) -> int:
    """The permissions of a file, or, if it does not exist, those of a new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        sample = folder / "sample"
        sample.touch()
        return stat.S_IMODE(os.stat(sample).st_mode)


def _synchronize(folder: Path) -> None:
    """Makes renames in a folder durable, where the system can synchronize folders."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

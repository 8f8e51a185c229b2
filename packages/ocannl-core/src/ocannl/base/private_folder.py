"""Folders that only the user can change, used through descriptors.

The folder is opened component by component, from the root of the file system, and each component is checked on its
descriptor. Files are opened relative to the descriptor of their folder, without following links, and checked on their
own descriptors. Between a check and the use that it permits, nothing can therefore be replaced. Systems without such
calls have no other owners to check either; there, paths are used.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ocannl.base.file_access import (
    FOREIGN_WRITE_BITS,
    NEITHER_WAIT_NOR_INHERIT,
    foreign_writers,
    require_regular,
    require_unchangeable_path,
)

TEMPORARY = ".new-"  # prefix of files that are not complete
HAS_DESCRIPTORS = hasattr(os, "geteuid") and {os.open, os.mkdir, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FOLDER = NO_LINKS | getattr(os, "O_DIRECTORY", 0)
PASSAGE = FOLDER | getattr(os, "O_PATH", 0)  # needs no permission to read


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """An open folder. Names are those of files in it, without separators."""

    path: Path
    descriptor: int | None  # None on systems without calls relative to descriptors

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """Returns the names in the folder with their status; links are not followed."""
        result = []
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed in the meantime
                    result.append((entry.name, entry.stat(follow_symlinks=False)))
        return result

    def names(self) -> list[str]:
        return os.listdir(self.path if self.descriptor is None else self.descriptor)

    def read(self, name: str) -> bytes:
        """Returns the content of a file. Raises `OSError` if it is a link, not regular, or others can write it."""
        descriptor = os.open(self._at(name), os.O_RDONLY | NO_LINKS | NEITHER_WAIT_NOR_INHERIT, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            require_regular(self.path / name, status)
            _require_private(self.path / name, status)
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Writes a file that only the user can read: under its name, there is always a complete file."""
        temporary = f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self._at(temporary), flags, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if HAS_DESCRIPTORS:
                    os.fchmod(descriptor, 0o600)  # whatever the umask
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            source, target = self._at(temporary), self._at(name)
            os.replace(source, target, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with suppress(OSError):
                self.remove(temporary)
            raise

    def touch(self, name: str) -> None:
        """Sets the time of the last use to the current time."""
        os.utime(self._at(name), dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self.descriptor)

    @contextmanager
    def subfolder(self, name: str, *, create: bool = False) -> Iterator[PrivateFolder]:
        """Opens a folder in this one. Raises `OSError` if it is missing or not private."""
        path = self.path / name
        if self.descriptor is None:
            if create:
                path.mkdir(exist_ok=True)
            yield PrivateFolder(path, None)
            return
        descriptor = _enter(self.descriptor, path, create, os.O_RDONLY | FOLDER)
        try:
            _require_private(path, os.fstat(descriptor))
            yield PrivateFolder(path, descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def open_private_folder(root: Path, name: str, *, create: bool = False) -> Iterator[PrivateFolder]:
    """Opens the private folder `name` in `root`, which and whose ancestors other users must not be able to replace.

    With `create`, missing folders are created, for the user alone whatever the umask. Raises `OSError`.
    """
    if not HAS_DESCRIPTORS:
        if create:
            root.mkdir(parents=True, exist_ok=True)
        with PrivateFolder(root, None).subfolder(name, create=create) as folder:
            yield folder
        return
    descriptor = _walk(root, create)
    try:
        with PrivateFolder(root, descriptor).subfolder(name, create=create) as folder:
            yield folder
    finally:
        os.close(descriptor)


def _walk(root: Path, create: bool) -> int:
    """Returns a descriptor of a folder whose path others cannot change."""
    try:
        resolved = root.resolve()
    except RuntimeError:
        raise OSError(errno.ELOOP, "links form a circle", str(root)) from None
    if resolved != root.absolute():
        require_unchangeable_path(root)  # the owners of links
    path = Path(resolved.anchor)
    descriptor = os.open(path, PASSAGE)
    for part in (None, *resolved.parts[1:]):
        try:
            if part is not None:
                path = path / part
                outer, descriptor = descriptor, _enter(descriptor, path, create, PASSAGE)
                os.close(outer)
            if problem := foreign_writers(os.fstat(descriptor)):
                raise PermissionError(errno.EPERM, f"{problem}, who could replace what is in it", str(path))
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _enter(outer: int, path: Path, create: bool, flags: int) -> int:
    """Opens a folder in the folder `outer`; neither is a link."""
    try:
        with suppress(FileNotFoundError):
            return os.open(path.name, flags, dir_fd=outer)
        if create:
            with suppress(FileExistsError):
                os.mkdir(path.name, 0o700, dir_fd=outer)
                os.chmod(path.name, 0o700, dir_fd=outer)  # no link: others cannot replace what is in the outer folder
        return os.open(path.name, flags, dir_fd=outer)
    except OSError as error:
        error.filename = str(path)
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(path.name, outer):
            error.strerror = "is a link"
        raise


def _is_link(name: str, outer: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.lstat(name, dir_fd=outer).st_mode)
    return False


def _require_private(path: Path, status: os.stat_result) -> None:
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))
    if status.st_mode & FOREIGN_WRITE_BITS:
        raise PermissionError(errno.EPERM, f"can be written by others; run: chmod 700 {path}", str(path))

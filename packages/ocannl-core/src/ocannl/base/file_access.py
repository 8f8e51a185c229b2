"""Files and folders that other users could have written: who can change them, and reading without blocking.

The system administrator is trusted, so that root counts as the user. On systems without owners, everything belongs to
the user.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

FOREIGN_WRITE_BITS = 0o022


class NotRegularFile(OSError):
    """A folder, device, pipe or socket where a file is expected."""


class FileTooLarge(OSError):
    """A file that exceeds its limit of bytes."""


def read_regular_file(path: str | Path, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Returns the content and the status of a regular file of at most `max_bytes` bytes.

    Neither a pipe nor a device is opened, unless it replaces the file in the last moment; even then the call returns at
    once. Raises `OSError`.
    """
    require_regular(path, os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | NEITHER_WAIT_NOR_INHERIT)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        require_regular(path, status)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileTooLarge(0, f"is larger than {max_bytes} bytes", str(path))
    return content, status


NEITHER_WAIT_NOR_INHERIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)


def require_regular(path: str | Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(0, "is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularFile(0, "is not a regular file", str(path))


def foreign_owner(status: os.stat_result) -> str | None:
    """Returns a description of the owner if this is neither the user nor root; else None."""
    if not hasattr(os, "geteuid") or status.st_uid == os.geteuid() or _is_root(status.st_uid):
        return None
    return f"belongs to another user ({_user_name(status.st_uid)})"


def foreign_writers(status: os.stat_result) -> str | None:
    """Returns a description of who else can change a file or folder, through its owner or its mode; None if nobody can.

    The group is no danger if it is the user's private group, which no other user belongs to. In a folder with the
    sticky bit, users can only remove their own files.
    """
    if not hasattr(os, "geteuid"):
        return None
    if owner := foreign_owner(status):
        return owner
    is_sticky_folder = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(status.st_mode) or is_sticky_folder:
        return None
    by_group = status.st_mode & stat.S_IWGRP and not _is_private_group(os.geteuid(), status.st_gid)
    return "can be written by others" if by_group or status.st_mode & stat.S_IWOTH else None


def require_unchangeable_path(path: Path) -> None:
    """Raises `PermissionError` if users besides the user and root can replace a file or folder, or one that it is in.
    Links count as files; what they lead to is not examined."""
    for ancestor in (path.absolute(), *path.absolute().parents):
        try:
            status = os.lstat(ancestor)
        except FileNotFoundError:
            continue
        if problem := foreign_writers(status):
            raise PermissionError(errno.EPERM, f"{problem}, who could replace what is in it", str(ancestor))


@lru_cache(maxsize=64)
def _is_root(uid: int) -> bool:
    """Whether this is root, or stands for root in a container (user namespace) that has no number for root."""
    if uid == 0:
        return True
    try:
        if uid != int(Path("/proc/sys/kernel/overflowuid").read_text("ascii")):
            return False
        lines = Path("/proc/self/uid_map").read_text("ascii").splitlines()
        return all(int(line.split()[0]) > 0 for line in lines)
    except (OSError, ValueError, IndexError):
        return False


@lru_cache(maxsize=64)
def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@lru_cache(maxsize=64)
def _is_private_group(uid: int, gid: int) -> bool:
    """Whether the only member of a group is the user for whom it was created, by the usual convention of names."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and set(group.gr_mem) <= {user.pw_name}


def file_states(paths: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """Returns paths in their order, each with modification time in ns, size and inode: 0 for what does not exist."""
    states = []
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            states.append((path, 0, 0, 0))
        else:
            states.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return states

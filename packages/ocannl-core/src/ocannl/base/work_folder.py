"""Temporary folders of backends, for compiling and loading."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PREFIX = "ocannl-work-"
STALE_AFTER_SECONDS = 3600


@contextmanager
def work_folder() -> Iterator[Path]:
    """A new folder that only the current user can access, and that is removed at the end."""
    folder = tempfile.mkdtemp(prefix=PREFIX)
    try:
        yield Path(folder)
    finally:
        _remove(folder)


def _remove(folder: str) -> None:
    """Removes a folder and its content as far as possible.

    An interrupted `shutil.rmtree`, which `tempfile.TemporaryDirectory` calls, may close a descriptor twice and raise
    OSError instead of KeyboardInterrupt.
    """
    for path, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):  # links to folders are among the folders, which otherwise are gone
            with suppress(OSError):
                os.unlink(os.path.join(path, name))
        with suppress(OSError):
            os.rmdir(path)


@cache
def remove_stale_folders(_pid: int) -> None:
    """Removes, once per process, folders that killed processes have left behind."""
    now = time.time()
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                is_stale_folder = (
                    entry.name.startswith(PREFIX) and stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
                )
                if is_stale_folder and now - status.st_mtime > STALE_AFTER_SECONDS:
                    _remove(entry.path)

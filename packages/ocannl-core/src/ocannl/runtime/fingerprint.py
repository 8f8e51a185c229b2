"""What tells one state of a package's source from another, so that code compiled by an older one is not reused."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache


@cache
def of_package(name: str) -> str:
    """The names, sizes and times of all modules of an imported package; empty when it has no files."""
    module = sys.modules.get(name)
    lines = [
        f"{path.removeprefix(folder)} {found.st_size} {found.st_mtime_ns}"
        for folder in sorted(getattr(module, "__path__", ())) for path, found in sorted(_modules(folder))
    ]  # fmt: skip
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def _modules(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Paths of modules in a folder and below, and what the system knows of them."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # somebody uninstalls the package
                if entry.name.endswith(".py"):
                    yield entry.path, entry.stat()
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    yield from _modules(entry.path)

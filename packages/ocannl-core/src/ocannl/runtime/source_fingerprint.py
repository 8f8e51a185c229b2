"""Fingerprints of package sources, so that code compiled by another version is not reused."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache


@cache
def package_fingerprint(name: str) -> str:
    """Returns a hash of names, sizes and modification times of a package's modules; empty if it has no files."""
    module = sys.modules.get(name)
    lines = [
        f"{path.removeprefix(folder)} {status.st_size} {status.st_mtime_ns}"
        for folder in sorted(getattr(module, "__path__", ())) for path, status in sorted(_modules(folder))
    ]  # fmt: skip
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def _modules(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the modules in a folder and its subfolders, with their file status."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # the package is being uninstalled
                if entry.name.endswith(".py"):
                    yield entry.path, entry.stat()
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    yield from _modules(entry.path)

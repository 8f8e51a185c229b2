"""What tells one state of a package's source from another, so that code compiled by an older one is not reused."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def of_package(name: str) -> str:
    """The names, sizes and times of all modules of an imported package; empty when it has no files."""
    module = sys.modules.get(name)
    lines = []
    for folder in sorted(getattr(module, "__path__", ())):
        for path in sorted(Path(folder).rglob("*.py")):
            with suppress(FileNotFoundError):  # somebody uninstalls the package
                found = path.stat()
                lines.append(f"{path.relative_to(folder)} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""

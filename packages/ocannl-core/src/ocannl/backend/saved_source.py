"""Saves generated source that a compiler rejected, for inspection."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path


def save_source(text: str, backend: str, suffix: str) -> Path | str:
    """Saves the text in a folder that only the current user can read. Returns its path, or the reason why it could not
    be saved."""
    try:
        path = _private_folder(backend, os.getpid()) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{suffix}"
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        return f"no file: {error}"
    return path


@cache
def _private_folder(backend: str, _pid: int) -> Path:
    """A new folder for each process."""
    return Path(tempfile.mkdtemp(prefix=f"ocannl-{backend}-kept-"))

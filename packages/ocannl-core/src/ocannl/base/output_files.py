"""Errors of files that the user asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ocannl.base.errors import ArgumentError


@contextmanager
def writing(path: str | os.PathLike[str], kind: str = "file") -> Iterator[None]:
    """Context manager that writes a file or a folder. Raises: ArgumentError with the path if that fails."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError for a null byte, or text that cannot be encoded
        cause = getattr(error, "strerror", None) or error
        raise ArgumentError(f"the {kind} {os.fspath(path)!r} cannot be written: {cause}") from error

"""Errors of files that the user asks for."""

from __future__ import annotations

import os

from ocannl.base.errors import ArgumentError


class Writing:
    """Context manager for writing a file or a folder. Raises: ArgumentError with the path if that fails."""

    def __init__(self, path: str | os.PathLike[str], kind: str = "file") -> None:
        self._path, self._kind = path, kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError | ValueError):  # ValueError for a null byte, or text that cannot be encoded
            cause = getattr(error, "strerror", None) or error
            raise ArgumentError(f"the {self._kind} {os.fspath(self._path)!r} cannot be written: {cause}") from error

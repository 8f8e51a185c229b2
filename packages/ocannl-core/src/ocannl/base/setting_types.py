"""Types of settings: functions that convert a string, or a value of TOML or Python, to the value of a setting.

They raise `ValueError` with the expected form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

__all__ = ["choice", "file_path", "folder_path", "natural", "optional", "switch", "text"]
T = TypeVar("T")
_TRUTH = {"on": True, "1": True, "true": True, "yes": True, "off": False, "0": False, "false": False, "no": False}


def text(raw: object) -> str:
    """A string that is not blank."""
    if isinstance(raw, str) and raw.strip() and "\0" not in raw:
        return raw.strip()
    raise ValueError("expected a name")


def natural(minimum: int, maximum: int = 2**31 - 1) -> Callable[[object], int]:
    """An integer between two bounds, which are not negative."""

    def read(raw: object) -> int:
        if isinstance(raw, str):
            raw = int(raw) if raw.strip().lstrip("+-").isdecimal() else None
        if isinstance(raw, int) and not isinstance(raw, bool) and minimum <= raw <= maximum:
            return raw
        is_large = isinstance(raw, int) and raw > maximum
        limit = f"at most {maximum}" if is_large else f"at least {minimum}"
        raise ValueError(f"expected an integer of {limit}")

    return read


def optional(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """None, or a value of another type."""
    return lambda raw: None if raw is None else read(raw)


def switch(raw: object) -> bool:
    """A truth value, or a word such as `on`."""
    truth = raw if isinstance(raw, bool) else _TRUTH.get(str(raw).strip().lower())
    if truth is None:
        raise ValueError("expected `on` or `off`")
    return truth


def choice(*choices: str) -> Callable[[object], str]:
    """A word among the choices, in lower case."""

    def read(raw: object) -> str:
        word = raw.strip().lower() if isinstance(raw, str) else None
        if word in choices:
            return word
        raise ValueError(f"expected one of {', '.join(choices)}")

    return read


def folder_path(raw: object) -> Path:
    """The absolute path of a folder, which need not exist."""
    if isinstance(raw, str | Path) and str(raw).strip() and "\0" not in str(raw):
        with suppress(RuntimeError):  # there is no such user
            return Path(raw).expanduser().absolute()
    raise ValueError("expected the path of a folder")


def file_path(raw: object) -> Path:
    """The absolute path of a file, which need not exist."""
    try:
        return folder_path(raw)
    except ValueError:
        raise ValueError("expected the path of a file") from None

"""Short source positions, such as `model.py:12`, that keep the full paths of their files."""

from __future__ import annotations

import sys
from typing import Any


class SourcePosition(str):
    """The name of a file and a line, such as `model.py:12`, or of a notebook cell, such as `In[3]:2`. Positions in
    different files of the same name differ.

    Attributes:
        path: the path of the file, or another text that `linecache` knows, such as `<stdin>`
    """

    __slots__ = ("path",)
    path: str

    def __new__(cls, path: str, line: int) -> SourcePosition:
        name = _cell_name(path) or path.replace("\\", "/").rpartition("/")[2]
        position = super().__new__(cls, f"{name}:{line}")
        position.path = path
        return position

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override] # of `__new__`, not of `str`
        return self.path, line_of(self)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) and (not isinstance(other, SourcePosition) or self.path == other.path)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _cell_name(path: str) -> str:
    """The name of the notebook cell whose source has this path, such as `In[3]`; empty for files."""
    if "IPython" not in sys.modules:
        return ""
    shell: Any = sys.modules["IPython"].get_ipython()
    label = getattr(getattr(shell, "compile", None), "format_code_name", lambda path: None)(path)
    return label[1] if label else ""


def path_of(position: str) -> str | None:
    """The path of the file of a `SourcePosition`; None for any other text."""
    return position.path if isinstance(position, SourcePosition) else None


def line_of(position: str) -> int:
    """The line of a position such as `model.py:12`; 0 for a text without one."""
    line = position.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0

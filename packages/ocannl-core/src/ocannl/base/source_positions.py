"""Full paths of the files that short source positions such as `model.py:12` name."""

from __future__ import annotations

_paths: dict[str, str] = {}


def source_position(path: str, line: int) -> str:
    """Returns the file name and line, such as `model.py:12`, and remembers the path."""
    name = path.replace("\\", "/").rpartition("/")[2]
    position = f"{name}:{line}"
    _paths.setdefault(position, path)
    return position


def path_of(position: str) -> str | None:
    """The path of the file of a position that `source_position` returned; None for any other text. Of several files
    with the same name and line, the first is returned."""
    return _paths.get(position)

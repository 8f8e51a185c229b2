"""Short source positions such as `model.py:12`, and the full paths of their files."""

from __future__ import annotations

_names: dict[str, str] = {}  # of paths
_paths: dict[str, str] = {}  # of names


def source_position(path: str, line: int) -> str:
    """Returns the file name and line, such as `model.py:12`, and remembers the path. If another file has this name
    already, folders precede it: `decoder/model.py:12`."""
    name = _names.get(path)
    if name is None:
        name = _names[path] = _unique_name(path)
    return f"{name}:{line}"


def path_of(position: str) -> str | None:
    """The path of the file of a position that `source_position` returned; None for a file without a position."""
    return _paths.get(position.rpartition(":")[0])


def _unique_name(path: str) -> str:
    parts = path.replace("\\", "/").split("/")
    for first in reversed(range(len(parts))):
        name = "/".join(parts[first:])
        if _paths.setdefault(name, path) == path:
            return name
    return parts[-1]  # the end of another path is the whole of this one

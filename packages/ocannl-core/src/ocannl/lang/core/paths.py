"""Parameters by path."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NoReturn, TypeVar

from ocannl.base.errors import CodeError, UnknownName, UnknownParameter

T = TypeVar("T")
MAX_LISTED = 10  # paths in an error


class Parameters(Mapping[str, T]):
    """Parameters by path, such as `net.layer.w`. The end of a path, `layer.w` or `w`, finds a parameter as well, if no
    other path ends so."""

    __slots__ = ("_by_path",)

    def __init__(self, by_path: Mapping[str, T]) -> None:
        self._by_path = by_path

    def __getitem__(self, path: str) -> T:
        if path in self._by_path:
            return self._by_path[path]
        ending = [full for full in self._by_path if full.endswith(f".{path}")]
        if len(ending) > 1:
            raise CodeError(f"several parameters are called {path!r}: {', '.join(ending)}")
        if not ending:
            close = difflib.get_close_matches(path, self._by_path, 1)
            names = ", ".join(islice(self._by_path, MAX_LISTED)) + ", ..." * (len(self) > MAX_LISTED)
            hint = f"did you mean {close[0]!r}?" if close else f"the parameters are {names or 'none'}"
            raise UnknownParameter(f"there is no parameter {path!r}: {hint}")
        return self._by_path[ending[0]]

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and name in self:
            raise UnknownName(f"parameters are read by their paths: write params[{name!r}]")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_path)

    def __len__(self) -> int:
        return len(self._by_path)

    def __repr__(self) -> str:
        return repr(self._by_path)


def unique(paths: Mapping[T, str]) -> Mapping[str, T]:
    """Parameters by path; a repeated path gets `_2`, `_3`, ..."""
    out: dict[str, T] = {}
    for t, path in paths.items():
        name, n = path, 2
        while name in out:
            name, n = f"{path}_{n}", n + 1
        out[name] = t
    return Parameters(out)

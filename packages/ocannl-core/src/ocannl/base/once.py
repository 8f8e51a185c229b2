"""A fact that settles once, and remembers who settled it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ocannl.base.errors import CodeError, OcannlError

T = TypeVar("T")
Author = str | Callable[[], str]
"""Who says so; asked late where its name may still change."""


class Once(Generic[T]):
    """Empty until `settle`; then settling the same value again is harmless and a contrary one is refused."""

    __slots__ = ("_error", "_settled", "what")

    def __init__(self, what: Author, error: type[OcannlError] = CodeError) -> None:
        self.what = what
        self._error = error
        self._settled: tuple[T, Author] | None = None

    def settle(self, value: T, author: Author) -> T:
        if self._settled is None:
            self._settled = (value, author)
        elif self._settled[0] != value:
            held, first = self._settled
            raise self._error(f"{_said(self.what)} is {held}, settled by {_said(first)}; "
                              f"{_said(author)} asks for {value}")  # fmt: skip
        return value

    @property
    def value(self) -> T | None:
        return None if self._settled is None else self._settled[0]

    @property
    def author(self) -> str | None:
        return None if self._settled is None else _said(self._settled[1])

    def __bool__(self) -> bool:
        return self._settled is not None

    def __repr__(self) -> str:
        return f"{self.value}, settled by {self.author}" if self else "unsettled"


def _said(words: Author) -> str:
    return words if isinstance(words, str) else words()

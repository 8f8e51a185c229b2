"""Write-once values that record their author."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ocannl.base.errors import CodeError, OcannlError

T = TypeVar("T")
Author = str | Callable[[], str]
"""A name, or a function that returns it where the name may still change."""


class WriteOnce(Generic[T]):
    """A value that can be set once; setting an equal value again has no effect, a different one raises `error`."""

    __slots__ = ("_assignment", "_error", "subject")

    def __init__(self, subject: Author, error: type[OcannlError] = CodeError) -> None:
        self.subject = subject
        self._error = error
        self._assignment: tuple[T, Author] | None = None

    def set(self, value: T, author: Author) -> T:
        if self._assignment is None:
            self._assignment = (value, author)
        elif self._assignment[0] != value:
            current, first_author = self._assignment
            raise self._error(f"{_author_name(self.subject)} is {current}, settled by {_author_name(first_author)}; "
                              f"{_author_name(author)} requests {value}")  # fmt: skip
        return value

    @property
    def value(self) -> T | None:
        return None if self._assignment is None else self._assignment[0]

    @property
    def author(self) -> str | None:
        return None if self._assignment is None else _author_name(self._assignment[1])

    def __bool__(self) -> bool:
        return self._assignment is not None

    def __repr__(self) -> str:
        return f"{self.value}, settled by {self.author}" if self else "unsettled"


def _author_name(author: Author) -> str:
    return author if isinstance(author, str) else author()

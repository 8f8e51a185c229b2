"""A fact that settles once and remembers who settled it."""

from __future__ import annotations

from typing import Generic, TypeVar

from ocannl.base.errors import CodeError

T = TypeVar("T")


class Once(Generic[T]):
    """Empty until `settle`; then settling the same value again is harmless and a contrary one is refused."""

    __slots__ = ("_settled", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self._settled: tuple[T, str] | None = None

    def settle(self, value: T, author: str) -> T:
        if self._settled is None:
            self._settled = (value, author)
        elif self._settled[0] != value:
            held, first = self._settled
            raise CodeError(f"{self.what} is {held}, settled by {first}; {author} asks for {value}")
        return value

    @property
    def value(self) -> T | None:
        return None if self._settled is None else self._settled[0]

    @property
    def author(self) -> str | None:
        return None if self._settled is None else self._settled[1]

    def __bool__(self) -> bool:
        return self._settled is not None

    def __repr__(self) -> str:
        return f"{self.value}, settled by {self.author}" if self else "unsettled"

"""Description of a tensor in messages."""

from __future__ import annotations

from collections.abc import Callable


class Provenance:
    """Description of a tensor for messages, evaluated lazily: labels may be bound after the shape exists."""

    __slots__ = ("name", "role", "text", "where")

    def __init__(
        self,
        name: str | Callable[[], str],
        role: str = "result",
        text: Callable[[], str] | None = None,
        where: str = "",
    ) -> None:
        self.name = name
        self.role = role
        self.text = text
        self.where = where

    @property
    def label(self) -> str:
        return self.name() if callable(self.name) else self.name

    @property
    def expression(self) -> str:
        return self.text() if self.text else self.label

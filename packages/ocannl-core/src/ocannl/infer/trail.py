"""Trail: undo log of all changes made by inference, and the propagation queue."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from ocannl.infer.terms import Cause, Constraint, Dim, RowVar

T = TypeVar("T")


class Trail:
    """State of one transaction: relating an operation, or finishing connected tensors.

    log     entries to restore: an attribute of a cell, or an item to remove from a list (no attribute)
    queue   changed cells and constraints to fire
    cause   the operation that causes the changes
    """

    __slots__ = ("cause", "log", "queue")

    def __init__(self, cause: Cause | None = None) -> None:
        self.log: list[tuple[object, str | None, object]] = []
        self.queue: deque[Dim | Constraint] = deque()
        self.cause = cause

    def set(self, cell: object, attribute: str, value: object) -> None:
        self.log.append((cell, attribute, getattr(cell, attribute)))
        setattr(cell, attribute, value)

    def push(self, items: list[T], item: T) -> None:
        items.append(item)
        self.log.append((items, None, None))

    def add(self, cell: Dim | RowVar, attribute: str, item: object) -> None:
        """Appends to a list attribute of a cell, creating the list if needed."""
        items = getattr(cell, attribute)
        if items is None:
            self.log.append((cell, attribute, None))
            setattr(cell, attribute, [item])
        else:
            items.append(item)
            self.log.append((items, None, None))

    def undo(self) -> None:
        for cell, attribute, old in reversed(self.log):
            if attribute is None:
                assert isinstance(cell, list)
                cell.pop()
            else:
                setattr(cell, attribute, old)
        self.log.clear()
        self.queue.clear()

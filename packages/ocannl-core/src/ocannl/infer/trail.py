"""Every change that inference makes, so that it can be taken back, and the cells that are to be looked at again."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from ocannl.infer.terms import Cause, Constraint, Dim, RowVar

T = TypeVar("T")


class Trail:
    """One attempt: an operation being related, or connected tensors being finished.

    log     what to restore: an attribute of a cell, or an item to remove from a list (no attribute)
    queue   cells and constraints that have something new to see
    cause   the operation on whose behalf changes are made
    """

    __slots__ = ("cause", "log", "queue")

    def __init__(self, cause: Cause | None = None) -> None:
        self.log: list[tuple[object, str | None, object]] = []
        self.queue: deque[Dim | Constraint] = deque()
        self.cause = cause

    def set(self, cell: object, slot: str, value: object) -> None:
        self.log.append((cell, slot, getattr(cell, slot)))
        setattr(cell, slot, value)

    def push(self, items: list[T], item: T) -> None:
        items.append(item)
        self.log.append((items, None, None))

    def add(self, cell: Dim | RowVar, slot: str, item: object) -> None:
        """Append to a list of a cell, which may not exist yet."""
        items = getattr(cell, slot)
        if items is None:
            self.log.append((cell, slot, None))
            setattr(cell, slot, [item])
        else:
            items.append(item)
            self.log.append((items, None, None))

    def undo(self) -> None:
        for cell, slot, old in reversed(self.log):
            if slot is None:
                assert isinstance(cell, list)
                cell.pop()
            else:
                setattr(cell, slot, old)
        self.log.clear()
        self.queue.clear()

"""Disjoint sets: union-find with path halving (Tarjan and van Leeuwen 1984)."""

from __future__ import annotations


class DisjointSets:
    """A partition of hashable elements; an element that was never united is a set by itself."""

    __slots__ = ("_parent",)

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def union(self, left: object, right: object) -> None:
        self._parent[self.find(left)] = self.find(right)

    def find(self, element: object) -> object:
        """Returns the representative of the element's set."""
        parent = self._parent
        while (above := parent.setdefault(element, element)) is not element:
            parent[element] = parent[above]  # path halving
            element = above
        return element

    def __contains__(self, element: object) -> bool:
        """Whether the element has been passed to `find` or `union`."""
        return element in self._parent

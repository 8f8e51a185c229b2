"""What belongs together because it is tied to the same things: loops by the axes of arrays that they count along."""

from __future__ import annotations


class Ties:
    """Anything that can be a key; what nobody has tied is alone."""

    __slots__ = ("_parent",)

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def tie(self, one: object, other: object) -> None:
        self._parent[self.root(one)] = self.root(other)

    def root(self, node: object) -> object:
        """The same for all that are tied to each other."""
        parent = self._parent
        while (above := parent.setdefault(node, node)) is not node:
            parent[node] = parent[above]  # the way gets shorter
            node = above
        return node

    def __contains__(self, node: object) -> bool:
        """Whether it has been asked for, or tied."""
        return node in self._parent

"""The part of the interface of routines that all transfers share: they have a name, and no code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import Decision, TNode
from ocannl.runtime.program import Stages


class TransferRoutine(ABC):
    """A routine that copies a node."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The node, the source and the destination."""

    @property
    def placements(self) -> Mapping[TNode, Decision]:
        return {}

    def source(self) -> str:
        """Returns a description; a transfer has no generated code."""
        return self.name

    def stages(self) -> Stages:
        return Stages()

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __reduce__(self) -> str:
        raise CodeError(f"`{self.name}` is bound to memory of this process; create it in the other process")

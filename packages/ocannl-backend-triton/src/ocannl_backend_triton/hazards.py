"""Where the threads of a program have to wait for each other: between accesses to memory that they hand on."""

from __future__ import annotations

from collections.abc import Hashable

from ocannl.ir.loops import Body, Buf, Load, Ref, Store, Update
from ocannl.ir.touch import storage
from ocannl.ir.walk import walk


class Hazards:
    """`disjoint` are the arrays that share no memory with others."""

    def __init__(self, body: Body, disjoint: frozenset[Buf]) -> None:
        self.disjoint = disjoint
        self.loops = 0  # around what is written now
        self.cells: dict[Hashable, set[Ref]] = {}
        self.read: set[Hashable] = set()
        for node in walk(body):
            if isinstance(node, Load | Store | Update):
                self.cells.setdefault(self.key(node.ref.buf), set()).add(node.ref)
                if not isinstance(node, Store):
                    self.read.add(self.key(node.ref.buf))

    def key(self, buf: Buf) -> Hashable:
        return storage(buf) if buf in self.disjoint else "arena"

    def enter(self) -> None:
        self.loops += 1

    def leave(self) -> None:
        self.loops -= 1

    def meets(self, buf: Buf) -> bool:
        """Whether a thread may touch what another one writes to the array. Where all speak of the same cells, and once,
        each keeps to its own."""
        key = self.key(buf)
        return len(self.cells.get(key, ())) > 1 or (self.loops > 0 and key in self.read)

"""Where the threads of a program have to wait for each other: between accesses to memory that they hand on."""

from __future__ import annotations

from collections.abc import Hashable

from ocannl.ir.loops import Body, Buf, Load, Stmt, Store, Update
from ocannl.ir.touch import storage
from ocannl.ir.walk import walk


class Hazards:
    """`disjoint` are the arrays that share no memory with others."""

    def __init__(self, body: Body, disjoint: frozenset[Buf]) -> None:
        self.disjoint = disjoint
        self.loops = 0  # around what is written now
        self.statements: dict[Hashable, int] = {}
        self.read: set[Hashable] = set()
        for stmt in walk(body):
            if isinstance(stmt, Stmt):
                self.note(stmt)

    def note(self, stmt: Stmt) -> None:
        here: set[Hashable] = set()
        match stmt:
            case Store(ref, value) | Update(ref, _, value):
                here.add(self.key(ref.buf))
                read = {self.key(e.ref.buf) for e in walk(value) if isinstance(e, Load)}
                if isinstance(stmt, Update):
                    read.add(self.key(ref.buf))
                self.read |= read
                here |= read
            case _ if hasattr(stmt, "value"):
                here = {self.key(e.ref.buf) for e in walk(stmt.value) if isinstance(e, Load)}
                self.read |= here
            case _:
                pass
        for key in here:
            self.statements[key] = self.statements.get(key, 0) + 1

    def key(self, buf: Buf) -> Hashable:
        return storage(buf) if buf in self.disjoint else "arena"

    def enter(self) -> None:
        self.loops += 1

    def leave(self) -> None:
        self.loops -= 1

    def meets(self, buf: Buf) -> bool:
        """Whether what is written to the array may be touched again by the same program."""
        key = self.key(buf)
        return self.statements.get(key, 0) > 1 or (self.loops > 0 and key in self.read)

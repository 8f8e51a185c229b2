"""Where the threads of a program have to wait for each other: between accesses to memory that they hand on.

A block lies in the registers of many threads, some of its numbers in several; which thread loads or stores a number is
triton's to decide. So what a statement writes is there for a later one to read after a barrier alone, and what one has
read may be written by a later one after a barrier alone. Within a statement each number is loaded before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager

from ocannl.ir.loops import Body, Buf, Load, Ref, Store, Update
from ocannl.ir.touch import storage
from ocannl.ir.walk import walk

Keys = set[Hashable]


class Hazards:
    """`disjoint` are the arrays that share no memory with others, `views` those of which others are views; `wait` puts
    a barrier here."""

    def __init__(self, body: Body, disjoint: frozenset[Buf], views: Mapping[Buf, Buf]) -> None:
        self.disjoint, self.views = disjoint, views
        self.wait: Callable[[], None] = lambda: None
        self.read: Keys = set()  # since the last barrier, by earlier statements
        self.written: Keys = set()
        self.here: Keys = set()  # read by this statement
        cells: dict[Hashable, set[Ref]] = {}
        for node in walk(body):
            if isinstance(node, Store | Update):
                cells.setdefault(self.key(node.ref.buf), set()).add(node.ref)
        self.rewritten = {key for key, refs in cells.items() if len(refs) > 1}

    def key(self, buf: Buf) -> Hashable:
        buf = self.views.get(buf, buf)
        return storage(buf) if buf in self.disjoint or buf.offset is None else "arena"

    def statement(self) -> None:
        """Another one begins."""
        self.read |= self.here
        self.here = set()

    def reads(self, buf: Buf) -> None:
        key = self.key(buf)
        if key in self.written:
            self.barrier()
        self.here.add(key)

    def writes(self, buf: Buf) -> None:
        key = self.key(buf)
        if key in self.read or (key in self.written and key in self.rewritten):
            self.barrier()
        self.written.add(key)

    def barrier(self) -> None:
        self.wait()
        self.read, self.written = set(), set()

    def before(self, body: Body) -> None:
        """A loop follows: what all of its iterations read is waited for once."""
        self.statement()
        if any(isinstance(node, Load) and self.key(node.ref.buf) in self.written for node in walk(body)):
            self.barrier()

    @contextmanager
    def loop(self, body: Body) -> Iterator[None]:
        """Each iteration but the first follows on another one."""
        self.statement()
        for node in walk(body):
            match node:
                case Load(ref): self.read.add(self.key(ref.buf))
                case Store(ref): self.written.add(self.key(ref.buf))
                case Update(ref):
                    self.read.add(self.key(ref.buf))
                    self.written.add(self.key(ref.buf))
                case _: pass
        with self.branch():
            yield

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is inside may be left out."""
        self.statement()
        read, written = set(self.read), set(self.written)
        yield
        self.statement()
        self.read |= read
        self.written |= written

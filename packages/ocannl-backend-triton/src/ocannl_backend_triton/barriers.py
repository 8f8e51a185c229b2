"""Barriers between the threads of a program, that exchange data through memory.

A block is distributed over the registers of many threads, some elements with copies in several; Triton decides which
thread loads or stores an element. Read-after-write and write-after-read dependences between statements therefore need a
barrier. Within one statement every element is loaded before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager

from ocannl.ir.accesses import alias_class
from ocannl.ir.loops import Body, Buf, Load, Ref, Store, Update
from ocannl.ir.walk import walk

AliasClasses = set[Hashable]


class Hazards:
    """Tracks accesses since the last barrier. `disjoint` are the arrays that alias no other, `views` maps flattened
    arrays to the original ones; `emit_barrier` writes a barrier at the current position."""

    def __init__(self, body: Body, disjoint: frozenset[Buf], views: Mapping[Buf, Buf]) -> None:
        self.disjoint, self.views = disjoint, views
        self.emit_barrier: Callable[[], None] = lambda: None
        self.pending_reads: AliasClasses = set()  # of earlier statements, since the last barrier
        self.pending_writes: AliasClasses = set()
        self.statement_reads: AliasClasses = set()  # of the current statement
        cells: dict[Hashable, set[Ref]] = {}
        for node in walk(body):
            if isinstance(node, Store | Update):
                cells.setdefault(self.alias_class(node.ref.buf), set()).add(node.ref)
        self.written_repeatedly = {alias_class for alias_class, refs in cells.items() if len(refs) > 1}

    def alias_class(self, buf: Buf) -> Hashable:
        buf = self.views.get(buf, buf)
        return alias_class(buf) if buf in self.disjoint or buf.offset is None else "arena"

    def begin_statement(self) -> None:
        """Ends the previous statement: its reads become pending."""
        self.pending_reads |= self.statement_reads
        self.statement_reads = set()

    def on_read(self, buf: Buf) -> None:
        alias_class = self.alias_class(buf)
        if alias_class in self.pending_writes:
            self.barrier()
        self.statement_reads.add(alias_class)

    def on_write(self, buf: Buf) -> None:
        alias_class = self.alias_class(buf)
        is_rewritten = alias_class in self.pending_writes and alias_class in self.written_repeatedly
        if alias_class in self.pending_reads or is_rewritten:
            self.barrier()
        self.pending_writes.add(alias_class)

    def barrier(self) -> None:
        self.emit_barrier()
        self.pending_reads, self.pending_writes = set(), set()

    def before_loop(self, body: Body) -> None:
        """Waits once for everything that the iterations of the following loop read."""
        self.begin_statement()
        if any(isinstance(node, Load) and self.alias_class(node.ref.buf) in self.pending_writes for node in walk(body)):
            self.barrier()

    @contextmanager
    def loop(self, body: Body) -> Iterator[None]:
        """Body of a loop: every iteration may follow another one, so its own accesses are pending."""
        self.begin_statement()
        for node in walk(body):
            match node:
                case Load(ref): self.pending_reads.add(self.alias_class(ref.buf))
                case Store(ref): self.pending_writes.add(self.alias_class(ref.buf))
                case Update(ref):
                    self.pending_reads.add(self.alias_class(ref.buf))
                    self.pending_writes.add(self.alias_class(ref.buf))
                case _: pass
        with self.branch():
            yield

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Body that may be skipped: accesses pending before it stay pending."""
        self.begin_statement()
        read, written = set(self.pending_reads), set(self.pending_writes)
        yield
        self.begin_statement()
        self.pending_reads |= read
        self.pending_writes |= written

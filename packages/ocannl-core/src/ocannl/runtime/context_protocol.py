"""Interface of contexts for the execution, profiling and tracing of routines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ocannl.backend.api import Backend, CompiledCode, Entry, Location, Queue
from ocannl.runtime.context_lock import ContextLock
from ocannl.runtime.device_arrays import Arrays
from ocannl.runtime.program import Link, Program
from ocannl.runtime.slabs import Slab


class ExecutionContext(Protocol):
    """The arrays of one device, the queue that accesses them, and the checks around each run."""

    backend: Backend
    queue: Queue
    threads: int
    arrays: Arrays
    lock: ContextLock

    def bind(
        self, code: CompiledCode, name: str, links: Sequence[Link], arena_bytes: int, further: Sequence[Location] = ()
    ) -> tuple[Entry, tuple[Slab, ...]]:
        """Binds a program of `code` to the arrays, and to `further` ones that belong to no node; returns the entry and
        the slabs of nodes that it uses."""
        ...

    def prepare_run(self, program: Program) -> None:
        """Checks that all inputs are initialized, and orders the program after pending reads of its outputs."""
        ...

    def record_run(self, program: Program) -> None:
        """Updates validity after a run."""
        ...

"""The seam: what a backend gives, and what it is given.

A backend turns programs into code (`compile`), keeps memory on devices (`Device`), does things in order (`Queue`), and
binds code to memory (`link`). It is given a `Proc`, never anything above; core plans memory, so a device only hands out
slabs, and core decides who waits for whom, so a queue only keeps its own order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Proc

API_VERSION = 1

Pool = Any
"""A slab of device memory, as its device knows it; opaque to everyone else."""

Entry = Callable[..., object]
"""A linked routine: called with the values of its static symbols, in the order of `Proc.syms`. It runs, or puts itself
into its queue; true means that it was cancelled and left early."""

Number = ctypes.c_int64
"""One that compiled code and Python both see."""


@runtime_checkable
class Brief(Protocol):
    """An entry that lets nobody else run Python before it is done, raises nothing and cannot be cancelled. Such a one
    needs no lock and no care, so users may call it with no Python in between."""

    def __call__(self, *values: int) -> object: ...

    def direct(
        self, state: Number, seen: Number, syms: Sequence[Sym], otherwise: Callable[..., object]
    ) -> Callable[..., None]:
        """A function that takes the values of the symbols by name. It hands a call over to `otherwise` while the two
        numbers differ, and one whose arguments are not plainly right."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """Where an array lives: `{pool, offset}`."""

    pool: Pool
    offset_bytes: int


class Code(Protocol):
    """Compiled programs, not yet bound to memory: linked any number of times."""

    @property
    def source(self) -> str:
        """The generated text, for people."""
        ...

    @property
    def blob(self) -> bytes | None:
        """Relocatable bytes from which `Backend.restore` makes the same code; None when it cannot be cached."""
        ...


class Event(Protocol):
    """A point in a queue: passed once all that was put into the queue before it has been done."""

    def is_done(self) -> bool: ...

    def synchronize(self) -> None:
        """The calling thread waits; raises what broke the queue before this point."""
        ...


class Queue(Protocol):
    """Work on one device, first in, first out; everything that touches memory goes through a queue.

    Offsets and sizes are in bytes; host arrays are contiguous, and left alone until the queue has come to them; one
    that is immediate has read them when `from_host` returns. Work that fails breaks the queue: what waits is dropped,
    and the next `submit` or `synchronize` raises what happened.
    """

    @property
    def device(self) -> Device: ...

    @property
    def immediate(self) -> bool:
        """Entries linked to the queue keep its order when they are simply called; else they are submitted."""
        ...

    def submit(self, work: Callable[..., object], *values: int) -> None:
        """Calls the function when its turn comes."""
        ...

    def zero(self, where: Location, size_bytes: int) -> None: ...

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None: ...

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None: ...

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        """The target is on the queue's device, the source there or on one that the device `reaches`."""
        ...

    def record(self) -> Event:
        """The point after all that has been submitted so far."""
        ...

    def wait(self, event: Event, *, needed: bool = True) -> None:
        """What is submitted from now on begins after the event, which may be of any queue of this backend. Work that
        is done when it is submitted makes the calling thread wait.

        If what the event waits for fails, this queue breaks as well, unless nobody needs it.
        """
        ...

    def synchronize(self) -> None: ...


@runtime_checkable
class Sharing(Protocol):
    """A queue on whose device other libraries can use arrays in place, and that can use theirs: through DLPack."""

    def lend(
        self, where: Location, dims: tuple[int, ...], kind: np.dtype[Any], holds: object
    ) -> object:
        """The array as an object that other libraries take; it refers to what keeps the memory, `holds`."""
        ...

    def borrow(self, array: object) -> tuple[Location, tuple[int, ...], np.dtype[Any]] | None:
        """Where an array of another library lies, to copy from; None when it is not in memory of such a device. What
        is put into the queue from now on comes after what gave the array its value."""
        ...


class Device(Protocol):
    """Memory, and queues of work on it."""

    @property
    def ordinal(self) -> int: ...

    @property
    def bytes_in_use(self) -> int: ...

    def alloc_pool(self, size_bytes: int) -> Pool:
        """A slab aligned to `Capabilities.alignment_bytes`; raises `OutOfMemory`."""
        ...

    def free_pool(self, pool: Pool) -> None:
        """Nothing that is submitted later uses the slab; what was submitted before may still."""
        ...

    def reaches(self, other: Device) -> bool:
        """Whether `Queue.copy` takes sources on the other device; else core goes through the host."""
        ...

    def queue(self, threaded: bool, threads: int = 1) -> Queue:
        """A new queue. One that is not `threaded` may do its work before calls return; one that is must not.

        `threads` of the processor may work for one program, where that means something.
        """
        ...


class Backend(Protocol):
    """A way to run programs."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Of everything that decides what code comes out: the plugin, its compiler, the target. Part of cache keys."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def compile(self, procs: Sequence[Proc]) -> Code:
        """All programs at once; `Proc.name`s are distinct identifiers. Raises `CompileError` or `Unsupported`."""
        ...

    def restore(self, blob: bytes) -> Code:
        """What `compile` made, from its verified bytes. Raises `CompileError` when they do not fit this machine."""
        ...

    def link(self, code: Code, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Binds the program `name`: one location for each pool buffer of `Proc.bufs`, in order, then one for the arena
        when `Proc.arena` is not zero. Locations are on the queue's device."""
        ...

    def device_count(self) -> int: ...

    def device(self, ordinal: int) -> Device: ...


@runtime_checkable
class Tunable(Protocol):
    """A backend that can compile a nest in several ways: of other sizes, say. Which is the fastest is for core to find
    out, where somebody asks for a search."""

    def ways(self, nest: Proc) -> Sequence[int]:
        """Numbers of those in which a program of a single nest can be compiled, each of which makes other code. The
        first is how `compile` does it; a number means the same for all nests."""
        ...

    def compile_in(self, procs: Sequence[Proc], ways: Sequence[Sequence[int]]) -> Code:
        """As `Backend.compile`, each nest of each program (as `ocannl.codegen.nests` cuts it) in one of these ways;
        those beyond the end of a list as `compile` does it."""
        ...


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What a plugin declares; nothing heavy may be imported to make one.

    `probe` answers None when the backend can work on this machine, else why not. A higher `priority` is preferred when
    the user names no backend.
    """

    name: str
    api_version: int
    description: str
    priority: int
    probe: Callable[[], str | None]
    load: Callable[[], Backend]

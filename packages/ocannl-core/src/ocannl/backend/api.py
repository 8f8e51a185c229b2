"""The backend plugin API.

A backend compiles programs (`compile`), allocates device memory (`Device`), executes work in order (`Queue`) and binds
code to memory (`link`). Its input is a `Proc`, the lowest level of the IR. Core plans memory, so a device allocates
slabs only; core inserts the dependencies between queues, so a queue only preserves its own order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ocannl.ir.affine import Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc

API_VERSION = 1
"""The version of this interface that the core implements. It rises with every change after which a plugin for the
version before might not work."""

API_MINOR = 10
"""The number of additions to the interface since `API_VERSION` rose, which plugins may ignore."""

OLDEST_API_VERSION = 1
"""The oldest version that the core still accepts from a plugin; at least the version before for a year."""

Pool = Any
"""A handle of a slab of device memory; opaque outside its device, unless it is a `ZeroedPool`."""

Entry = Callable[..., object]
"""A linked routine: called with the values of its static symbols, in the order of `Proc.syms`. The call executes the
routine or enqueues it; a true result means that execution was cancelled."""

SharedInt64 = ctypes.c_int64
"""An integer in memory shared by compiled code and Python."""


@runtime_checkable
class DirectCallable(Protocol):
    """A short entry that holds the GIL until it returns, never raises and cannot be cancelled. It needs neither a lock
    nor error handling, so Python can call the compiled code directly (PEP 590)."""

    def __call__(self, *values: int) -> object: ...

    def vectorcall(
        self, epoch: SharedInt64, checked_epoch: SharedInt64, syms: Sequence[Sym], fallback: Callable[..., object]
    ) -> Callable[..., None]:
        """Returns a function that takes the values of the symbols by keyword. It forwards a call to `fallback` while
        the two epochs differ, or when an argument is not an `int` within the bounds of its symbol."""
        ...


@runtime_checkable
class ZeroedPool(Protocol):
    """A slab that tells whether all of its bytes were zero when it was allocated. Arrays that start with zeros are not
    written in such a slab."""

    is_zeroed: bool


@dataclass(frozen=True, slots=True)
class Location:
    """The address of an array: a slab and an offset in bytes."""

    pool: Pool
    offset_bytes: int


class CompiledCode(Protocol):
    """Compiled programs that are not bound to memory; they can be linked any number of times."""

    @property
    def source(self) -> str:
        """The generated source text, for inspection."""
        ...

    @property
    def blob(self) -> bytes | None:
        """Serialized code that `Backend.restore` loads; None if the code cannot be cached."""
        ...


class Event(Protocol):
    """A marker in a queue that completes when all work submitted before it has completed."""

    def is_done(self) -> bool: ...

    def synchronize(self) -> None:
        """Blocks the calling thread until the event completes; raises the error of earlier work in its queue."""
        ...


@runtime_checkable
class FallibleEvent(Protocol):
    """An event that distinguishes work that has failed from work that is pending."""

    def has_ended(self) -> bool:
        """Whether the event has completed, or never will, because work before it has failed."""
        ...


class Queue(Protocol):
    """A FIFO queue of work on one device; every memory access goes through a queue.

    Offsets and sizes are in bytes. Host arrays are contiguous and must not be modified until the queue has processed
    them; an immediate queue has read them when `from_host` returns. Failing work breaks the queue: pending work is
    dropped, and the next `submit` or `synchronize` raises the error.
    """

    @property
    def device(self) -> Device: ...

    @property
    def immediate(self) -> bool:
        """Whether calling an entry linked to the queue preserves its order; otherwise entries must be submitted."""
        ...

    def submit(self, work: Callable[..., object], *values: int) -> None:
        """Enqueues a call of the function with these values."""
        ...

    def zero(self, where: Location, size_bytes: int) -> None: ...

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None: ...

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None: ...

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        """Copies to the queue's device from the same device or from one that it `reaches`."""
        ...

    def record(self) -> Event:
        """Returns an event that completes after all work submitted so far."""
        ...

    def wait(self, event: Event, *, needed: bool = True) -> None:
        """Orders all work submitted from now on after the event, which may belong to any queue of this backend. A queue
        that executes work on submission blocks the calling thread.

        A failure of the work before the event also breaks this queue, unless `needed` is false.
        """
        ...

    def synchronize(self) -> None: ...


@runtime_checkable
class SupportsDlpack(Protocol):
    """A queue that exchanges device arrays with other libraries without copying, through DLPack."""

    def to_dlpack(
        self, where: Location, dims: tuple[int, ...], kind: np.dtype[Any], holds: object
    ) -> object:
        """Returns an object that implements the DLPack protocol and references `holds`, the owner of the memory."""
        ...

    def from_dlpack(self, array: object) -> tuple[Location, tuple[int, ...], np.dtype[Any]] | None:
        """Returns the location, shape and type of another library's array; None if its memory is not on this device.
        Work submitted from now on is ordered after the work that produces the array."""
        ...


@runtime_checkable
class SupportsCancellation(Protocol):
    """A queue whose work can be cancelled by any thread."""

    def cancel(self) -> None:
        """Drops pending work, and stops running work as soon as possible; the queue can be used afterwards."""
        ...


@runtime_checkable
class SupportsHostMemory(Protocol):
    """A device that can use memory of the host that others own, such as a window shared by processes, as a slab."""

    def host_pool(self, memory: np.ndarray[Any, np.dtype[np.uint8]]) -> Pool:
        """Returns a slab of these bytes, aligned to `Capabilities.alignment_bytes`; it is never freed."""
        ...


class Device(Protocol):
    """A device: memory, and queues of work that accesses it."""

    @property
    def ordinal(self) -> int: ...

    @property
    def bytes_in_use(self) -> int: ...

    def alloc_pool(self, size_bytes: int) -> Pool:
        """Allocates a slab aligned to `Capabilities.alignment_bytes`; raises `OutOfMemory`."""
        ...

    def free_pool(self, pool: Pool) -> None:
        """Frees a slab that no later work uses; work submitted before may still be using it."""
        ...

    def reaches(self, source: Device) -> bool:
        """Whether `Queue.copy` accepts sources on that device; otherwise core copies through the host."""
        ...

    def queue(self, threaded: bool, threads: int = 1) -> Queue:
        """Creates a queue. A `threaded` queue executes work asynchronously; any other may execute it on submission.

        `threads` bounds the CPU threads that execute one program, where that applies.
        """
        ...


class Backend(Protocol):
    """A compiler and runtime for one kind of device."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """The version of everything that determines the generated code: plugin, compiler and target. Part of cache
        keys."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def compile(self, procs: Sequence[Proc]) -> CompiledCode:
        """Compiles programs whose names are distinct identifiers. Raises `CompileError` or `Unsupported`."""
        ...

    def restore(self, blob: bytes) -> CompiledCode:
        """Loads code from a verified `Code.blob`. Raises `CompileError` if it was compiled for another target."""
        ...

    def link(self, code: CompiledCode, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Binds the program `name` to memory: one location for each buffer of `Proc.bufs` outside the arena, in
        order, then one for the arena if `Proc.arena` is not zero. All locations are on the queue's device."""
        ...

    def device_count(self) -> int: ...

    def device(self, ordinal: int) -> Device: ...


@runtime_checkable
class Tunable(Protocol):
    """A backend with several code variants of a loop nest, such as other block sizes. Autotuning picks the fastest."""

    def variants(self, nest: Proc) -> Sequence[int]:
        """Returns the numbers of the variants of a single-nest program that differ in their code. The first is the
        default of `compile`; a number denotes the same variant for all nests."""
        ...

    def compile_variants(self, procs: Sequence[Proc], variants: Sequence[Sequence[int]]) -> CompiledCode:
        """Like `Backend.compile`, with a variant for each nest of each program (as partitioned by
        `ocannl.codegen.outlining`); nests beyond the end of a list use the default."""
        ...


@runtime_checkable
class HasObjectFiles(Protocol):
    """Compiled code that consists of object files, whose machine code can be shown."""

    @property
    def object_files(self) -> Sequence[bytes]: ...


@runtime_checkable
class HasSourceSuffix(Protocol):
    """A backend that names the language of its generated source by the suffix of files, such as `.c`."""

    @property
    def source_suffix(self) -> str: ...


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """The descriptor of a plugin; creating it must not import expensive modules.

    `api_minor` is the number of additions to the interface that the plugin needs; a core with fewer refuses it.

    `probe` returns None if the backend works on this machine, otherwise the reason why not. Without an explicit choice,
    the usable backend with the highest `priority` is the default.
    """

    name: str
    api_version: int
    description: str
    priority: int
    probe: Callable[[], str | None]
    load: Callable[[], Backend]
    api_minor: int = 0

"""The device arrays of a context: the location of each node, and whether its array holds a valid value."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ocannl.backend.api import Event, Location, Queue, SupportsHostMemory, ZeroedPool
from ocannl.base.errors import BackendError, DtypeError, OutOfMemory, ShapeError
from ocannl.base.log import logger
from ocannl.ir.tnode import TNode
from ocannl.runtime.context_lock import ContextLock
from ocannl.runtime.slabs import Bytes, Slab, pack

Array = np.ndarray[Any, Any]
P = ParamSpec("P")
T = TypeVar("T")
_log = logger("runtime.arrays")


@dataclass(slots=True, eq=False)
class Resident:
    """An array in device memory.

    Accesses by the context's own queue are ordered. `readers` are events of other queues that read the array; the next
    write has to wait for them.
    """

    slab: Slab
    where: Location
    written: bool = False  # holds a valid value of the node
    started: bool = False  # has ever held one
    readers: list[Event] = field(default_factory=list)
    version: int = 0  # rises with each write, except those of `writers` and, if it `is_shared`, of other libraries
    writers: weakref.WeakValueDictionary[int, object] | None = None  # stand for the routines that write the array
    is_shared: bool = False
    is_watched: bool = False  # a write changes the epoch, since routines have precomputed arrays that depend on it

    @property
    def may_change(self) -> bool:
        """Whether the array may be written without a change of its version."""
        return self.is_shared or bool(self.writers)

    @property
    def is_zero(self) -> bool:
        """Whether the bytes are still zero since the memory was allocated."""
        pool = self.where.pool
        return isinstance(pool, ZeroedPool) and pool.is_zeroed and self.version == 0 and not self.is_shared


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory usage in bytes: the total of a context, thereof the arena of its routines (excluding smaller arenas still
    bound to earlier routines) and its merge buffers, and the total of all contexts on the device."""

    held_bytes: int
    arena_bytes: int
    merge_bytes: int
    device_bytes: int


class Arrays:
    """Owns the arrays of nodes; memory is freed when a node is garbage-collected, or all of it by `release`. The merge
    buffer of a node is a separate array.

    `lock.epoch` changes whenever the validity of an array changes, so a check stays valid within one epoch.
    """

    def __init__(self, queue: Queue, alignment_bytes: int) -> None:
        self.queue = queue
        self.lock = ContextLock()
        self._alignment = alignment_bytes
        self._residents: weakref.WeakKeyDictionary[TNode, Resident] = weakref.WeakKeyDictionary()
        self._merged: weakref.WeakKeyDictionary[TNode, Resident] = weakref.WeakKeyDictionary()
        self._slabs: weakref.WeakSet[Slab] = weakref.WeakSet()
        self._arena: Slab | None = None
        self.losses = 0  # failures of work that may have been lost
        self._pending_writes: dict[Resident, Event | None] = {}  # writes that may not have completed, with their events

    def __contains__(self, node: TNode) -> bool:
        return node in self._residents

    def __getitem__(self, node: TNode) -> Resident:
        return self._residents[node]

    def allocate(self, nodes: Iterable[TNode]) -> None:
        """Allocates the nodes that have no array yet, in one slab."""
        new = [n for n in dict.fromkeys(nodes) if n not in self._residents]
        if not new:
            return
        for node, resident in zip(new, self._allocate_slab(new), strict=True):
            self._residents[node] = resident

    def adopt(self, nodes: Sequence[TNode], memory: Bytes, offsets_bytes: Sequence[int]) -> bool:
        """Places the nodes in memory of the host that something else owns. Returns false, and places none, if the
        device cannot use this memory, or a node has an array already."""
        if not isinstance(self.queue.device, SupportsHostMemory) or any(node in self._residents for node in nodes):
            return False
        if memory.ctypes.data % self._alignment:
            return False
        slab = Slab(self.queue.device, memory.nbytes, memory)
        self._slabs.add(slab)
        for node, offset in zip(nodes, offsets_bytes, strict=True):
            self._residents[node] = Resident(slab, slab.at(offset), is_shared=True)
        return True

    def merge_buffer(self, node: TNode) -> Resident:
        """Returns the array that receives another context's value of the node; allocates it on first use."""
        if node not in self._merged:
            (self._merged[node],) = self._allocate_slab([node])
        return self._merged[node]

    def has_merge_buffer(self, node: TNode) -> bool:
        """Whether a merge buffer of the node is allocated."""
        return node in self._merged

    def _allocate_slab(self, nodes: list[TNode]) -> list[Resident]:
        sizes = [math.prod(n.dims, start=n.precision.nbytes) for n in nodes]
        offsets, size = pack(sizes, self._alignment)
        try:
            slab = self.slab(size)
        except OutOfMemory as error:
            nbytes, largest = max(zip(sizes, nodes, strict=True), key=lambda pair: pair[0])
            raise OutOfMemory(f"{error}; `{largest.label}` of sizes {largest.dims} takes {nbytes}") from None
        return [Resident(slab, slab.at(offset)) for offset in offsets]

    def arena(self, size_bytes: int) -> Slab:
        """Returns the scratch memory shared by routines; routines bound to a smaller arena keep it."""
        if self._arena is None or self._arena.size_bytes < size_bytes:
            self._arena = self.slab(size_bytes)
        return self._arena

    def slab(self, size_bytes: int) -> Slab:
        """Allocates a slab; it is freed with the last reference to it."""
        slab = Slab(self.queue.device, max(1, size_bytes))
        self._slabs.add(slab)
        return slab

    def release(self) -> None:
        """Frees all memory, even if references remain."""
        self.lock.epoch += 1
        for reader in [r for array in self._residents.values() for r in array.readers]:
            with suppress(BackendError):  # a failed reader no longer reads
                reader.synchronize()
        self._residents.clear()
        self._merged.clear()
        self._arena = None
        for slab in list(self._slabs):
            slab.release()

    # --- validity ---

    def holds(self, node: TNode) -> bool:
        array = self._residents.get(node)
        return array is not None and array.written

    def was_written(self, node: TNode) -> bool:
        """Whether the array has ever held a value."""
        array = self._residents.get(node)
        return array is not None and array.started

    def mark(self, node: TNode, written: bool) -> None:
        """Sets the validity of a node's array, if it has one."""
        array = self._residents.get(node)
        if array is not None:
            self.set_written(array, written)

    def set_written(self, array: Resident, written: bool) -> None:
        if array.written != written:
            array.written = written
            array.started = True
            self.lock.epoch += 1

    # --- queue operations ---

    def run(self, work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Performs a queue operation; a failure invalidates all arrays with pending writes."""
        try:
            return work(*args, **options)
        except BaseException:
            self.invalidate(())
            raise

    def write(self, array: Resident, work: Callable[P, None], /, *args: P.args, **options: P.kwargs) -> None:
        """Performs a queue operation that writes the array; a failure invalidates the array as well."""
        array.version += 1  # first, since an interrupt may follow the operation at once
        if array.is_watched:
            self.lock.epoch += 1
        try:
            work(*args, **options)
            if not self.queue.immediate:
                self.add_pending((array,), self.queue.record())
        except BaseException:
            self.invalidate((array,))
            raise
        self.set_written(array, True)

    def share(self, array: Resident) -> None:
        """Registers that other libraries may write the array from now on."""
        array.is_shared = True
        self.lock.epoch += 1

    def add_writer(self, array: Resident, token: object) -> None:
        """Registers a routine that writes the array, as long as its token lives."""
        if array.writers is None:
            array.writers = weakref.WeakValueDictionary()
        array.writers[id(token)] = token
        array.version += 1  # the routine may have ended at the next check
        self.lock.epoch += 1

    def add_pending(self, written: Iterable[Resident], done: Event | None = None) -> None:
        """Registers writes that are pending until `done`, or until the queue is synchronized."""
        self._pending_writes.update(dict.fromkeys(written, done))

    def invalidate(self, written: Iterable[Resident]) -> None:
        """Marks these arrays and all arrays with pending writes as uninitialized."""
        lost = [array for array, done in self._pending_writes.items() if done is None or not done.is_done()]
        for array in (*written, *lost):
            array.written = False
        self._pending_writes.clear()
        self.losses += 1
        self.lock.epoch += 1

    def synchronize(self) -> None:
        """Waits for all submitted work; raises its error."""
        self.run(self.queue.synchronize)
        self._pending_writes.clear()

    def before_write(self, arrays: Iterable[Resident]) -> None:
        """Orders later work of the queue after all reads of these arrays by other queues."""
        for array in arrays:
            for reader in array.readers:
                self.run(self.queue.wait, reader, needed=False)  # a failed reader no longer reads
            array.readers.clear()

    def upload(self, node: TNode, array: Array) -> None:
        """Copies a host array to the node. The caller must not modify it afterwards, unless the queue is immediate."""
        _log.debug("`%s` to the device, %d bytes", node.label, array.nbytes)
        resident = self._residents[node]
        if resident.readers:
            self.before_write((resident,))
        self.write(resident, self.queue.from_host, resident.where, array)

    def zero(self, node: TNode) -> None:
        """Sets all bytes of the node to zero."""
        _log.debug("`%s` is zeroed on the device", node.label)
        resident = self._residents[node]
        if resident.readers:
            self.before_write((resident,))
        if resident.is_zero:
            self.write(resident, lambda: None)
        else:
            self.write(resident, self.queue.zero, resident.where, math.prod(node.dims, start=node.precision.nbytes))

    def copy_from_device(self, node: TNode, where: Location, dims: tuple[int, ...], kind: np.dtype[Any]) -> None:
        """Copies an array of another library on the same device to the node."""
        if dims != node.dims:
            raise ShapeError(f"`{node.label}` has the sizes {node.dims}, but the assigned array has {dims}")
        if kind != node.precision.numpy:
            raise DtypeError(f"`{node.label}` is of type {node.precision}, but the array is of type {kind}: convert it")
        resident = self._residents[node]
        if resident.readers:
            self.before_write((resident,))
        self.write(resident, self.queue.copy, where, resident.where, math.prod(dims, start=kind.itemsize))

    def download(self, node: TNode, *, merged: bool = False) -> Array:
        """Returns a host copy of the node, or of its merge buffer."""
        out = np.empty(node.dims, node.precision.numpy)
        _log.debug("`%s%s` from the device, %d bytes", node.label, ".merge" if merged else "", out.nbytes)
        self.run(self.queue.to_host, (self.merge_buffer(node) if merged else self._residents[node]).where, out)
        self.synchronize()
        return out

    def usage(self) -> Usage:
        arena = self._arena.size_bytes if self._arena else 0
        total = sum(slab.size_bytes for slab in self._slabs)
        merge = sum(math.prod(n.dims, start=n.precision.nbytes) for n in self._merged)
        return Usage(total, arena, merge, self.queue.device.bytes_in_use)

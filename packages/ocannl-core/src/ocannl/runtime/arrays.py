"""The arrays of nodes on one device: where each lies, and whether it holds a value of its node."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ocannl.backend.api import Event, Location, Queue
from ocannl.base.errors import BackendError, DtypeError, OutOfMemory, ShapeError
from ocannl.base.log import logger
from ocannl.ir.tnode import TNode
from ocannl.runtime.context_lock import ContextLock
from ocannl.runtime.pools import Slab, packed

Array = np.ndarray[Any, Any]
P = ParamSpec("P")
T = TypeVar("T")
_log = logger("runtime.arrays")


@dataclass(slots=True, eq=False)
class Resident:
    """An array that lives on the device.

    What the context's own queue does to it happens in order; `readers` are points that other queues pass when they are
    done reading it, and for which whoever writes it next has to wait.
    """

    slab: Slab
    where: Location
    written: bool = False  # it holds a value of the node
    started: bool = False  # it ever did
    readers: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of memory: what a context holds, of that the scratch memory of its routines (those that were bound to a
    smaller one may keep it) and its merge buffers, and what all contexts hold on its device."""

    held_bytes: int
    arena_bytes: int
    merge_bytes: int
    device_bytes: int


class Arrays:
    """Memory that is given back when a node dies, or all of it on request; a node's merge buffer is an array beside its
    own.

    `turn.state` changes whenever an array comes to hold a value or ceases to: who has looked at one state need not look
    again while it lasts.
    """

    def __init__(self, queue: Queue, alignment_bytes: int) -> None:
        self.queue = queue
        self.turn = ContextLock()
        self._alignment = alignment_bytes
        self._residents: weakref.WeakKeyDictionary[TNode, Resident] = weakref.WeakKeyDictionary()
        self._merged: weakref.WeakKeyDictionary[TNode, Resident] = weakref.WeakKeyDictionary()
        self._slabs: weakref.WeakSet[Slab] = weakref.WeakSet()
        self._arena: Slab | None = None
        self._unsure: dict[Resident, Event | None] = {}  # written by work that may not be done yet; when, if known

    def __contains__(self, node: TNode) -> bool:
        return node in self._residents

    def __getitem__(self, node: TNode) -> Resident:
        return self._residents[node]

    def allocate(self, nodes: Iterable[TNode]) -> None:
        """Room for those that have none, in one slab."""
        new = [n for n in dict.fromkeys(nodes) if n not in self._residents]
        if not new:
            return
        for node, resident in zip(new, self._place(new), strict=True):
            self._residents[node] = resident

    def merge_buffer(self, node: TNode) -> Resident:
        """Where another context's copy of the node is put, for code to read."""
        if node not in self._merged:
            (self._merged[node],) = self._place([node])
        return self._merged[node]

    def merges(self, node: TNode) -> bool:
        """Whether there is a merge buffer of the node."""
        return node in self._merged

    def _place(self, nodes: list[TNode]) -> list[Resident]:
        sizes = [math.prod(n.dims, start=n.precision.nbytes) for n in nodes]
        offsets, size = packed(sizes, self._alignment)
        try:
            slab = self._slab(size)
        except OutOfMemory as wrong:
            nbytes, largest = max(zip(sizes, nodes, strict=True), key=lambda each: each[0])
            raise OutOfMemory(f"{wrong}; `{largest.label}` of sizes {largest.dims} takes {nbytes}") from None
        return [Resident(slab, slab.at(offset)) for offset in offsets]

    def arena(self, size_bytes: int) -> Slab:
        """Scratch memory that routines share; those bound to a smaller one keep that."""
        if self._arena is None or self._arena.size_bytes < size_bytes:
            self._arena = self._slab(size_bytes)
        return self._arena

    def _slab(self, size_bytes: int) -> Slab:
        slab = Slab(self.queue.device, max(1, size_bytes))
        self._slabs.add(slab)
        return slab

    def release(self) -> None:
        """Gives all memory back, whoever still refers to it."""
        self.turn.state += 1
        for reader in [r for array in self._residents.values() for r in array.readers]:
            with suppress(BackendError):  # it has failed, so it no longer reads
                reader.synchronize()
        self._residents.clear()
        self._merged.clear()
        self._arena = None
        for slab in list(self._slabs):
            slab.release()

    # --- what they hold ---

    def holds(self, node: TNode) -> bool:
        array = self._residents.get(node)
        return array is not None and array.written

    def held(self, node: TNode) -> bool:
        """Whether the array ever held a value."""
        array = self._residents.get(node)
        return array is not None and array.started

    def mark(self, node: TNode, written: bool) -> None:
        """A node that has no array holds nothing anyway."""
        array = self._residents.get(node)
        if array is not None:
            self.settle(array, written)

    def settle(self, array: Resident, written: bool) -> None:
        if array.written != written:
            array.written = written
            array.started = True
            self.turn.state += 1

    # --- what is put into the queue ---

    def do(self, work: Callable[P, T], /, *given: P.args, **options: P.kwargs) -> T:
        """Has the queue do something. If it breaks, nobody knows what is held by whatever was waiting in it."""
        try:
            return work(*given, **options)
        except BaseException:
            self.break_off(())
            raise

    def write(self, array: Resident, work: Callable[P, None], /, *given: P.args, **options: P.kwargs) -> None:
        """Has the queue do something that gives the array its value; if it breaks, nobody knows what that is."""
        try:
            work(*given, **options)
            if not self.queue.immediate:
                self.expect((array,), self.queue.record())
        except BaseException:
            self.break_off((array,))
            raise
        self.settle(array, True)

    def expect(self, written: Iterable[Resident], done: Event | None = None) -> None:
        """These hold what they should once the queue has come so far."""
        self._unsure.update(dict.fromkeys(written, done))

    def break_off(self, written: Iterable[Resident]) -> None:
        lost = [array for array, done in self._unsure.items() if done is None or not done.is_done()]
        for array in (*written, *lost):
            array.written = False
        self._unsure.clear()
        self.turn.state += 1

    def synchronize(self) -> None:
        """Waits until all is done; raises what went wrong in it."""
        self.do(self.queue.synchronize)
        self._unsure.clear()

    def before_write(self, arrays: Iterable[Resident]) -> None:
        """What the queue does from now on begins when nobody else reads these any more."""
        for array in arrays:
            for reader in array.readers:
                self.do(self.queue.wait, reader, needed=False)  # one that has failed reads no more
            array.readers.clear()

    def upload(self, node: TNode, array: Array) -> None:
        """The array is left alone by everyone from now on, or until this returns if the queue is immediate."""
        _log.debug("`%s` to the device, %d bytes", node.label, array.nbytes)
        resident = self._residents[node]
        if resident.readers:
            self.before_write((resident,))
        self.write(resident, self.queue.from_host, resident.where, array)

    def take(self, node: TNode, where: Location, dims: tuple[int, ...], kind: np.dtype[Any]) -> None:
        """A copy of an array that another library has on the device."""
        if dims != node.dims:
            raise ShapeError(f"`{node.label}` has the sizes {node.dims}, and the array that is to set it {dims}")
        if kind != node.precision.numpy:
            raise DtypeError(f"`{node.label}` is of type {node.precision}, and the array is of type {kind}: convert it")
        resident = self._residents[node]
        if resident.readers:
            self.before_write((resident,))
        self.write(resident, self.queue.copy, where, resident.where, math.prod(dims, start=kind.itemsize))

    def download(self, node: TNode, *, merged: bool = False) -> Array:
        """A copy of the node, or of its merge buffer."""
        out = np.empty(node.dims, node.precision.numpy)
        _log.debug("`%s%s` from the device, %d bytes", node.label, ".merge" if merged else "", out.nbytes)
        self.do(self.queue.to_host, (self.merge_buffer(node) if merged else self._residents[node]).where, out)
        self.synchronize()
        return out

    def usage(self) -> Usage:
        arena = self._arena.size_bytes if self._arena else 0
        held = sum(slab.size_bytes for slab in self._slabs)
        merge = sum(math.prod(n.dims, start=n.precision.nbytes) for n in self._merged)
        return Usage(held, arena, merge, self.queue.device.bytes_in_use)

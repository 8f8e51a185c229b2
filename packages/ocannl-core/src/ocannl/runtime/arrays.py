"""The arrays of nodes on one device: where each lies, and whether it holds a value of its node."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.backend.api import Device, Location
from ocannl.base.errors import OutOfMemory
from ocannl.ir.tnode import TNode
from ocannl.runtime.pools import Slab, packed

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Resident:
    """An array that lives on the device."""

    slab: Slab
    where: Location
    written: bool = False  # it holds a value of the node
    started: bool = False  # it ever did


class Arrays:
    """Memory that is given back when a node dies, or all of it on request.

    `state` changes whenever an array comes to hold a value or ceases to: who has looked at one state need not look
    again while it lasts.
    """

    def __init__(self, device: Device, alignment_bytes: int) -> None:
        self.device = device
        self.state = 0
        self._alignment = alignment_bytes
        self._residents: weakref.WeakKeyDictionary[TNode, Resident] = weakref.WeakKeyDictionary()
        self._slabs: weakref.WeakSet[Slab] = weakref.WeakSet()
        self._arena: Slab | None = None

    def __getitem__(self, node: TNode) -> Resident:
        return self._residents[node]

    def allocate(self, nodes: Iterable[TNode]) -> None:
        """Room for those that have none, in one slab."""
        new = [n for n in dict.fromkeys(nodes) if n not in self._residents]
        if not new:
            return
        sizes = [math.prod(n.dims, start=n.precision.nbytes) for n in new]
        offsets, size = packed(sizes, self._alignment)
        try:
            slab = self._slab(size)
        except OutOfMemory as wrong:
            nbytes, largest = max(zip(sizes, new, strict=True), key=lambda each: each[0])
            raise OutOfMemory(f"{wrong}; `{largest.label}` of sizes {largest.dims} takes {nbytes}") from None
        for node, offset in zip(new, offsets, strict=True):
            self._residents[node] = Resident(slab, slab.at(offset))

    def arena(self, size_bytes: int) -> Slab:
        """Scratch memory that routines share; those bound to a smaller one keep that."""
        if self._arena is None or self._arena.size_bytes < size_bytes:
            self._arena = self._slab(size_bytes)
        return self._arena

    def _slab(self, size_bytes: int) -> Slab:
        slab = Slab(self.device, max(1, size_bytes))
        self._slabs.add(slab)
        return slab

    def release(self) -> None:
        """Gives all memory back, whoever still refers to it."""
        self.state += 1
        self._residents.clear()
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
        if array is not None and array.written != written:
            array.written = written
            array.started = True
            self.state += 1

    def upload(self, node: TNode, array: Array) -> None:
        self.allocate([node])
        self.device.synchronize()
        self.device.from_host(self._residents[node].where, array)
        self.mark(node, True)

    def download(self, node: TNode) -> Array:
        out = np.empty(node.dims, node.precision.numpy)
        self.device.synchronize()
        self.device.to_host(self._residents[node].where, out)
        return out

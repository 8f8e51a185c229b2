"""Sums of nodes over the contexts of all processes of a world.

The replicas of the nodes are numbered: those of the contexts of rank 0, then those of rank 1, and so on. They are added
in a binary tree in this order, cell by cell, so that the same number of replicas gives the same bits however they are
divided among processes. All nodes of a context form one slab. There are three exchanges:

* small slabs are gathered by all processes, which all compute the sum;
* on one host, the slabs lie in a window of shared memory, where the arrays of the nodes are, too, if the device can use
  memory of the host. Each process sums its part of the cells of all slabs, and stores it in all slabs;
* between hosts, messages of whole slabs follow the edges of the tree, and return along them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode
from ocannl.runtime.context import Context
from ocannl.runtime.slabs import pack
from ocannl.runtime.world import World
from ocannl.train.reduction_tree import reduction_tree
from ocannl.transport.api import Bytes, PersistentRequest
from ocannl.transport.single_process import ALIGNMENT_BYTES, aligned_zeros

Array = np.ndarray[Any, Any]
MAX_GATHERED_BYTES = 1 << 14  # of all slabs, for which latency matters more than bandwidth
BLOCK_BYTES = 1 << 17  # of cells that are summed at a time, in a private cache


@dataclass(frozen=True, slots=True)
class SlabLayout:
    """Offsets of nodes in a slab, ordered by precision, and the range of bytes of each precision."""

    nodes: tuple[TNode, ...]
    offsets_bytes: tuple[int, ...]
    size_bytes: int
    ranges: tuple[tuple[Precision, int, int], ...]

    @staticmethod
    def of(nodes: Sequence[TNode]) -> SlabLayout:
        ordered = sorted(nodes, key=lambda node: node.precision.name)
        sizes = [math.prod(node.dims, start=node.precision.nbytes) for node in ordered]
        offsets, size = pack(sizes, ALIGNMENT_BYTES)
        ranges = []
        for _, group in groupby(zip(ordered, offsets, [*offsets[1:], size], strict=True), lambda x: x[0].precision):
            (first, start, stop), *more = group
            ranges.append((first.precision, start, more[-1][2] if more else stop))
        return SlabLayout(tuple(ordered), tuple(offsets), size, tuple(ranges))

    def array(self, slab: Bytes, index: int) -> Array:
        """The array of a node in a slab."""
        node, start = self.nodes[index], self.offsets_bytes[index]
        size = math.prod(node.dims, start=node.precision.nbytes)
        return slab[start : start + size].view(node.precision.numpy).reshape(node.dims)


class ProcessReduction:
    """Replaces nodes in all contexts of all processes by the sum of their replicas.

    A call sums the replicas of the first `holders` contexts. All processes create and call this in the same order, with
    as many contexts. Without `shares_memory`, or on several hosts, processes exchange messages.
    """

    def __init__(
        self, world: World, nodes: Sequence[TNode], contexts: Sequence[Context], *, shares_memory: bool
    ) -> None:  # fmt: skip
        self._world, self._contexts, self._layout = world, contexts, SlabLayout.of(nodes)
        world.agree("the number of contexts", str(len(contexts)))
        world.agree("the list of exchanged nodes", "\n".join(f"{n.label} {n.precision} {n.dims}" for n in nodes))
        self._count = len(contexts) * world.size
        self._first = len(contexts) * world.rank
        size = self._layout.size_bytes * len(contexts)
        self._is_gathered = size * world.size <= MAX_GATHERED_BYTES
        self._is_shared = shares_memory and not self._is_gathered
        memory = world.transport.window([size] * world.size) if self._is_shared else [aligned_zeros(size)]
        self._slabs = [slab for part in memory for slab in np.split(part, len(contexts))]
        self._local_slabs = self._slabs[self._first :][: len(contexts)] if self._is_shared else self._slabs
        self._is_adopted = [
            ctx.arrays.adopt(self._layout.nodes, slab, self._layout.offsets_bytes)
            for ctx, slab in zip(contexts, self._local_slabs, strict=True)
        ]
        self._steps: dict[int, list[tuple[int, int, PersistentRequest | None]]] = {}
        if self._is_gathered:
            self._gathered = np.zeros(size * world.size, np.uint8)
            self._gatherer = world.transport.gatherer(memory[0], self._gathered)
        elif not self._is_shared:
            self._received = np.zeros(self._layout.size_bytes, np.uint8)

    def __call__(self, holders: int) -> None:
        """Sums the replicas of the first `holders` contexts of all."""
        if not 1 <= holders <= self._count:
            raise CodeError(f"1 to {self._count} contexts contribute to a sum, not {holders}")
        for number, (ctx, slab) in enumerate(zip(self._contexts, self._local_slabs, strict=True), self._first):
            self._take(ctx, slab, number < holders, self._is_adopted[number - self._first])
        with np.errstate(all="ignore"):
            if self._is_gathered:
                self._sum_gathered(holders)
            elif self._is_shared:
                self._sum_in_window(holders)
            else:
                self._sum_by_messages(holders)
        for ctx, slab, is_adopted in zip(self._contexts, self._local_slabs, self._is_adopted, strict=True):
            self._give(ctx, slab, is_adopted)

    def _take(self, ctx: Context, slab: Bytes, is_holder: bool, is_adopted: bool) -> None:
        """Completes the work of a context, and copies its nodes to the slab unless they are there."""
        with ctx.lock:
            for index, node in enumerate(self._layout.nodes):
                if is_holder:
                    resident = ctx.readable(node)
                    if not is_adopted:
                        ctx.arrays.run(ctx.queue.to_host, resident.where, self._layout.array(slab, index))
                elif not is_adopted:
                    ctx.arrays.allocate([node])
                ctx.arrays.before_write((ctx.arrays[node],))
            ctx.synchronize()

    def _give(self, ctx: Context, slab: Bytes, is_adopted: bool) -> None:
        """Copies the sums from the slab to the nodes of a context, unless they are there."""
        with ctx.lock:
            for index, node in enumerate(self._layout.nodes):
                if is_adopted:
                    ctx.arrays.mark(node, True)
                else:
                    ctx.arrays.upload(node, self._layout.array(slab, index))
            if not all(self._is_adopted):
                ctx.synchronize()  # before the slab changes again

    # ---------------------------------------------------------------------------------------------- the exchanges

    def _sum_gathered(self, holders: int) -> None:
        self._world.run(self._gatherer)
        slabs = np.split(self._gathered, self._count)
        for precision, start, stop in self._layout.ranges:
            parts = [slab[start:stop].view(precision.numpy) for slab in slabs]
            for target, source in reduction_tree(holders):
                np.add(parts[target], parts[source], out=parts[target])
        for slab in self._local_slabs:
            np.copyto(slab, slabs[0])

    def _sum_in_window(self, holders: int) -> None:
        world, edges = self._world, reduction_tree(holders)
        world.barrier()
        for precision, start, stop in self._layout.ranges:
            arrays = [slab[start:stop].view(precision.numpy) for slab in self._slabs]
            block = BLOCK_BYTES // precision.nbytes
            blocks = -(-arrays[0].size // block)
            first, last = (blocks * rank // world.size for rank in (world.rank, world.rank + 1))
            for begin in range(first * block, last * block, block):
                parts = [array[begin : begin + block] for array in arrays]
                for target, source in edges:
                    np.add(parts[target], parts[source], out=parts[target])
                for part in parts[1:]:
                    np.copyto(part, parts[0])
        world.barrier()

    def _sum_by_messages(self, holders: int) -> None:
        if holders not in self._steps:
            self._steps[holders] = self._planned(holders)
        local = range(self._first, self._first + len(self._contexts))
        reductions = len(reduction_tree(holders))
        for number, (target, source, request) in enumerate(self._steps[holders]):
            if request is not None:
                self._world.run(request)
            if target in local:
                slab = self._local_slabs[target - self._first]
                sent = self._local_slabs[source - self._first] if source in local else self._received
                if number >= reductions:
                    np.copyto(slab, sent)
                    continue
                for precision, start, stop in self._layout.ranges:
                    part = slab[start:stop].view(precision.numpy)
                    np.add(part, sent[start:stop].view(precision.numpy), out=part)

    def _planned(self, holders: int) -> list[tuple[int, int, PersistentRequest | None]]:
        """The steps of a sum, as targets and sources: first all additions, then all copies. A step between processes
        has a request of this process, or none if it takes part in neither end."""
        transport, count = self._world.transport, len(self._contexts)
        copies = [(source, target) for target, source in reversed(reduction_tree(self._count))]
        steps: list[tuple[int, int, PersistentRequest | None]] = []
        for target, source in [*reduction_tree(holders), *copies]:
            tag, receiving, sending = self._world.next_tag(), target // count, source // count
            request: PersistentRequest | None = None
            if receiving != sending == transport.rank:
                request = transport.sender(self._local_slabs[source - self._first], receiving, tag)
            elif sending != receiving == transport.rank:
                request = transport.receiver(self._received, sending, tag)
            steps.append((target, source, request))
        return steps

"""Sums of the slabs of all processes, in a binary tree, cell by cell. There are three ways:

* small slabs are gathered by all processes, which all compute the sum;
* on one host, the slabs lie in a window of shared memory, where the arrays of the nodes are, too, if the device can use
  memory of the host. Each process sums its part of the cells of all slabs, and stores it in all slabs;
* between hosts, messages of whole slabs follow the edges of the tree, and return along them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode
from ocannl.runtime.slabs import pack
from ocannl.runtime.world import Completion, World
from ocannl.train.reduction_tree import reduction_tree
from ocannl.transport.api import ALIGNMENT_BYTES, Bytes, PersistentRequest

Array = np.ndarray[Any, Any]
Completions = Iterator[Completion]
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

    def arrays(self, slab: Bytes) -> list[Array]:
        """The cells of each precision in a slab."""
        return [slab[start:stop].view(precision.numpy) for precision, start, stop in self.ranges]


def silent_runner() -> Callable[..., Any]:
    """Returns a function that calls another one, in one thread at a time, without warnings of overflow and of invalid
    operands. To enter `np.errstate` in each call would take longer than a small sum."""
    variables = Context()
    variables.run(np.seterr, all="ignore")
    return variables.run


class SlabSum(Protocol):
    """Replaces the slabs of all processes by the sum of the first of them."""

    def completions(self, holders: int) -> Completions:
        """The sum of the first `holders` slabs, as an iterator that yields what must be done before it continues."""
        ...


class GatheredSum:
    """Implements `SlabSum`: every process gathers all slabs."""

    def __init__(self, world: World, layout: SlabLayout, memory: Bytes, local_slabs: Sequence[Bytes]) -> None:
        self._layout, self._sum, self._copies = layout, local_slabs[0], local_slabs[1:]
        self._gatherer = world.gatherer(memory)
        buffers = [[s for part in parts for s in np.split(part, len(local_slabs))] for parts in self._gatherer.buffers]
        self._gathered = [[*zip(*map(layout.arrays, slabs), strict=True)] for slabs in buffers]
        partial_sums = [self._sum, *(np.zeros_like(self._sum) for _ in buffers[0][1:])]
        self._partial_sums = [*map(layout.arrays, partial_sums)]
        self._additions = cache(self._plan)
        self._run_silently = silent_runner()

    def _plan(self, holders: int, index: int) -> list[tuple[Array, Array, Array]]:
        """Triples of two summands and their sum. The last sum is that of all."""
        additions = []
        for number, gathered in enumerate(self._gathered[index]):
            terms = list(gathered)
            for target, source in reduction_tree(holders):
                total = self._partial_sums[target][number]
                additions.append((terms[target], terms[source], total))
                terms[target] = total
        return additions

    def completions(self, holders: int) -> Completions:
        self._gatherer.start()
        yield self._gatherer
        for first, second, total in self._additions(holders, self._gatherer.index):
            self._run_silently(np.add, first, second, total)
        if holders == 1:
            for total, (first, *_) in zip(self._partial_sums[0], self._gathered[self._gatherer.index], strict=True):
                total[...] = first
        for copy in self._copies:
            copy[...] = self._sum


class WindowSum:
    """Implements `SlabSum`: the slabs of all processes lie in shared memory, of which each process sums a part."""

    def __init__(self, world: World, layout: SlabLayout, slabs: Sequence[Bytes]) -> None:
        self._rank, self._size = world.rank, world.size
        self._arrays = [*zip(*map(layout.arrays, slabs), strict=True)]
        self._are_complete, self._are_summed = world.signal(), world.signal()
        self._run_silently = silent_runner()

    def completions(self, holders: int) -> Completions:
        self._are_complete.start()
        yield self._are_complete
        edges = reduction_tree(holders)
        for arrays in self._arrays:
            block = BLOCK_BYTES // arrays[0].itemsize
            blocks = -(-arrays[0].size // block)
            first, last = (blocks * rank // self._size for rank in (self._rank, self._rank + 1))
            for begin in range(first * block, last * block, block):
                parts = [array[begin : begin + block] for array in arrays]
                for target, source in edges:
                    self._run_silently(np.add, parts[target], parts[source], parts[target])
                for part in parts[1:]:
                    part[...] = parts[0]
        self._are_summed.start()
        yield self._are_summed


class MessageSum:
    """Implements `SlabSum`: messages of whole slabs follow the edges of the tree."""

    def __init__(self, world: World, layout: SlabLayout, local_slabs: Sequence[Bytes]) -> None:
        self._world, self._layout, self._local_slabs = world, layout, local_slabs
        self._received = np.zeros(layout.size_bytes, np.uint8)
        self._planned = cache(self._plan)
        self._run_silently = silent_runner()

    def completions(self, holders: int) -> Completions:
        return self._exchange(len(reduction_tree(holders)), self._planned(holders))

    def _exchange(self, reductions: int, steps: list[tuple[int, int, PersistentRequest | None]]) -> Completions:
        count, rank = len(self._local_slabs), self._world.rank
        for number, (target, source, request) in enumerate(steps):
            if request is not None:
                request.start()
                yield request
            if target // count != rank:
                continue
            slab = self._local_slabs[target % count]
            sent = self._local_slabs[source % count] if source // count == rank else self._received
            if number >= reductions:
                slab[...] = sent
                continue
            for total, term in zip(self._layout.arrays(slab), self._layout.arrays(sent), strict=True):
                self._run_silently(np.add, total, term, total)

    def _plan(self, holders: int) -> list[tuple[int, int, PersistentRequest | None]]:
        """The steps of a sum, as targets and sources: first all additions, then all copies. A step between processes
        has a request of this process, or none if it takes part in neither end."""
        transport, count = self._world.transport, len(self._local_slabs)
        copies = [(source, target) for target, source in reversed(reduction_tree(count * transport.size))]
        steps: list[tuple[int, int, PersistentRequest | None]] = []
        for target, source in [*reduction_tree(holders), *copies]:
            tag, receiving, sending = self._world.next_tag(), target // count, source // count
            request: PersistentRequest | None = None
            if receiving != sending == transport.rank:
                request = transport.sender(self._local_slabs[source % count], receiving, tag)
            elif sending != receiving == transport.rank:
                request = transport.receiver(self._received, sending, tag)
            steps.append((target, source, request))
        return steps

"""Sums of nodes over the contexts of all processes of a world.

The replicas of the nodes are numbered: those of the contexts of rank 0, then those of rank 1, and so on. They are added
in a binary tree in this order, so that the same number of replicas gives the same bits however they are divided among
processes. All nodes of a context form one slab.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocannl.backend.api import Event, FallibleEvent
from ocannl.base.errors import CodeError
from ocannl.ir.tnode import TNode
from ocannl.runtime.context import Context
from ocannl.runtime.world import World
from ocannl.train.slab_sums import Completions, GatheredSum, MessageSum, SlabLayout, SlabSum, WindowSum
from ocannl.transport.single_process import aligned_zeros

MAX_GATHERED_BYTES = 1 << 14  # of all slabs, for which latency matters more than bandwidth


class ProcessReduction:
    """Replaces nodes in all contexts of all processes by the sum of their replicas.

    A call sums the replicas of the first `holders` contexts. All processes create and call this in the same order, with
    as many contexts. Without `shares_memory`, or on several hosts, processes exchange messages. `is_alone` means that
    no sum of another reduction is in progress during a call.
    """

    def __init__(
        self, world: World, nodes: Sequence[TNode], contexts: Sequence[Context], *, shares_memory: bool,
        is_alone: bool = True,
    ) -> None:  # fmt: skip
        self._world, self._contexts, self._layout = world, contexts, SlabLayout.of(nodes)
        world.agree("the number of contexts", str(len(contexts)))
        world.agree("the list of exchanged nodes", "\n".join(f"{n.label} {n.precision} {n.dims}" for n in nodes))
        self._count = len(contexts) * world.size
        self._first = len(contexts) * world.rank
        size = self._layout.size_bytes * len(contexts)
        is_gathered = size * world.size <= MAX_GATHERED_BYTES and (is_alone or shares_memory)
        is_shared = shares_memory and not is_gathered
        memory = world.transport.window(range(world.size), [size] * world.size) if is_shared else [aligned_zeros(size)]
        slabs = [slab for part in memory for slab in np.split(part, len(contexts))]
        self._local_slabs = slabs[self._first :][: len(contexts)] if is_shared else slabs
        self._are_adopted = [
            ctx.arrays.adopt(self._layout.nodes, slab, self._layout.offsets_bytes)
            for ctx, slab in zip(contexts, self._local_slabs, strict=True)
        ]
        self._epochs = [ctx.lock.epoch_if_free for ctx in contexts]
        self._checked_epochs: list[int | None] = [None] * len(contexts)
        self._sum: SlabSum
        if is_gathered:
            self._sum = GatheredSum(world, self._layout, memory[0], self._local_slabs)
        elif is_shared:
            self._sum = WindowSum(world, self._layout, slabs)
        else:
            self._sum = MessageSum(world, self._layout, self._local_slabs)

    def __call__(self, holders: int) -> None:
        """Sums the replicas of the first `holders` contexts of all."""
        for completion in self.completions(holders):
            self._world.wait(completion)

    def completions(self, holders: int) -> Completions:
        """The sum, as an iterator that yields what must be done before it continues."""
        if not 1 <= holders <= self._count:
            raise CodeError(f"1 to {self._count} contexts contribute to a sum, not {holders}")
        self._world.require_open()
        summed = self._sum.completions(holders)
        return self._copied_and(summed, holders) if self._must_check() else summed

    def _copied_and(self, summed: Completions, holders: int) -> Completions:
        yield from self._taken(holders)
        yield from summed
        yield from self._given()

    def _must_check(self) -> bool:
        """Whether nodes have to be copied, or may have changed their state since the last call."""
        return [epoch.value for epoch in self._epochs] != self._checked_epochs

    def _taken(self, holders: int) -> Completions:
        """Submits copies of the nodes to the slabs, unless they are there, and yields the events when these and all
        work before is done."""
        events = []
        for number, (ctx, slab) in enumerate(zip(self._contexts, self._local_slabs, strict=True), self._first):
            is_adopted = self._are_adopted[number - self._first]
            with ctx.lock:
                for index, node in enumerate(self._layout.nodes):
                    if number < holders:
                        resident = ctx.readable(node)
                        if not is_adopted:
                            ctx.arrays.run(ctx.queue.to_host, resident.where, self._layout.array(slab, index))
                    elif not is_adopted:
                        ctx.arrays.allocate([node])
                    ctx.arrays.before_write((ctx.arrays[node],))
                if not ctx.queue.immediate:
                    events.append((ctx, ctx.arrays.run(ctx.queue.record)))
        yield from _ended(events)

    def _given(self) -> Completions:
        """Submits copies of the sums from the slabs to the nodes of the contexts, unless they are there, and yields the
        events when these are done: the slabs may change again."""
        events = []
        for number, (ctx, slab) in enumerate(zip(self._contexts, self._local_slabs, strict=True)):
            is_adopted = self._are_adopted[number]
            with ctx.lock:
                for index, node in enumerate(self._layout.nodes):
                    if is_adopted:
                        ctx.arrays.mark(node, True)
                    else:
                        ctx.arrays.upload(node, self._layout.array(slab, index))
                if is_adopted and ctx.queue.immediate:
                    self._checked_epochs[number] = ctx.lock.epoch
                elif not (is_adopted or ctx.queue.immediate):
                    events.append((ctx, ctx.arrays.run(ctx.queue.record)))
        yield from _ended(events)


class _End:
    """Completes when the work before an event of a queue is done, or has failed."""

    def __init__(self, event: Event) -> None:
        self.is_done = event.has_ended if isinstance(event, FallibleEvent) else event.is_done


def _ended(events: Sequence[tuple[Context, Event]]) -> Completions:
    """Yields the ends of events of contexts, and raises the error of work before them."""
    for ctx, event in events:
        yield _End(event)
        ctx.arrays.run(event.synchronize)
        ctx.arrays.run(ctx.queue.submit, _nothing)  # raises the error of work that failed before the event was recorded


def _nothing() -> None:
    pass

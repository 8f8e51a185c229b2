"""Copies of nodes from one context to another, as routines.

A transfer works in the queue of its destination: it begins when the source has done what was submitted there before,
and whoever writes the node in the source next waits until it has been read. The host waits for neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from time import perf_counter_ns

from ocannl.base.errors import CodeError
from ocannl.base.log import logger
from ocannl.ir.tnode import Decision, TNode
from ocannl.runtime.arrays import Resident
from ocannl.runtime.context import Context, node_of
from ocannl.runtime.profile import Profile, Row, Span
from ocannl.runtime.program import Stages

_log = logger("runtime.transfer")


class Transfer:
    """Made by `transfer`. Nothing moves before it is called."""

    __slots__ = ("_destination", "_merges", "_node", "_source", "_target")

    def __init__(self, node: TNode, source: Context, destination: Context, merges: bool) -> None:
        self._node = node
        self._source = source
        self._destination = destination
        self._merges = merges
        with destination.lock:
            destination.refuse_closed()
            if merges:
                self._target: Resident = destination.arrays.merge_buffer(node)
            else:
                destination.arrays.allocate([node])
                self._target = destination.arrays[node]

    def __call__(self) -> None:
        source, destination, node = self._source, self._destination, self._node
        first, second = sorted((source, destination), key=id)  # one order for all threads
        with first.lock, second.lock:
            destination.refuse_closed()
            given = source.readable(node)
            _log.debug("%s", self.name)
            if not self._merges:
                destination.arrays.before_write((self._target,))
            if destination.device.reaches(source.device):
                self._copy(given)
            else:
                self._carry()

    def _copy(self, given: Resident) -> None:
        """From device to device, while the host goes on."""
        source, queue = self._source, self._destination.queue
        arrays = self._destination.arrays
        event = source.arrays.do(source.queue.record)
        if source is not self._destination:
            arrays.do(queue.wait, event)
        arrays.write(self._target, queue.copy, given.where, self._target.where, self._size_bytes)
        if source is not self._destination:
            given.readers = [*(r for r in given.readers if not r.is_done()), queue.record()]
            source.arrays.turn.state += 1  # routines look again before they write

    @property
    def _size_bytes(self) -> int:
        return math.prod(self._node.dims, start=self._node.precision.nbytes)

    def _carry(self) -> None:
        """Through the host, which waits for the source."""
        host = self._source.arrays.download(self._node)
        self._destination.arrays.write(self._target, self._destination.queue.from_host, self._target.where, host)

    # ------------------------------------------------------------------------------------------------- what it is

    @property
    def name(self) -> str:
        into = "merge buffer" if self._merges else "node"
        return f"transfer of {self._node.label} from {self._source} into {into} of {self._destination}"

    @property
    def inputs(self) -> tuple[TNode, ...]:
        return (self._node,)

    @property
    def outputs(self) -> tuple[TNode, ...]:
        """The nodes that hold something new in the destination after a call; a merge buffer is none."""
        return () if self._merges else (self._node,)

    @property
    def placements(self) -> Mapping[TNode, Decision]:
        return {}

    def source(self) -> str:
        """There is no generated text; what it does, in words."""
        return self.name

    def stages(self) -> Stages:
        return Stages()

    def profile(self, calls: int = 10) -> Profile:
        """What a call takes when nothing else is under way, in time and in bytes."""
        spans: list[Span] = []
        began = perf_counter_ns()
        for _ in range(calls):
            self._source.synchronize()
            self._destination.synchronize()
            start = perf_counter_ns()
            self()
            self._destination.synchronize()
            spans.append(Span(0, start - began, perf_counter_ns() - start))
        took = [span.duration_ns for span in spans]
        size, middle = self._size_bytes, int(median(took))
        row = Row(self._node.label, "transfer", calls, middle, min(took), sum(took), size, size)
        return Profile(self.name, self._destination.backend.name, calls, middle, (row,), tuple(spans))

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __reduce__(self) -> str:
        raise CodeError(f"`{self.name}` is bound to memory of this process; make it anew where it is needed")


def transfer(node: object, src: Context, dst: Context, into: str = "merge") -> Transfer:
    """A routine that copies what a node holds in context `src` to context `dst`: into the node there, or into its merge
    buffer, which code reads as `node.merge`. Code that does can be compiled in `dst` once the transfer exists.

    The contexts may be on different devices, and of different backends.
    """
    for given in (src, dst):
        if not isinstance(given, Context):
            raise CodeError(f"a transfer goes from a context to a context, not {given!r}")
    if into not in ("merge", "node"):
        raise CodeError(f'a transfer goes into the "merge" buffer or the "node" itself, not {into!r}')
    if src is dst and into == "node":
        raise CodeError("a transfer of a node into itself would do nothing; give two contexts")
    return Transfer(node_of(node), src, dst, into == "merge")

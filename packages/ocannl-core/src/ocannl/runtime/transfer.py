"""Transfers: routines that copy nodes between contexts.

A transfer executes in the queue of its destination, after all work submitted to the source before; the next write of
the node in the source waits until it has been read. The host does not block.
"""

from __future__ import annotations

import math
from statistics import median
from time import perf_counter_ns

from ocannl.base.errors import CodeError
from ocannl.base.log import logger
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.tnode import TNode
from ocannl.runtime.context import Context, node_of
from ocannl.runtime.device_arrays import Resident
from ocannl.runtime.process_transfer import ProcessTransfer
from ocannl.runtime.profile import Profile, ProfileRow, Span
from ocannl.runtime.transfer_routine import TransferRoutine
from ocannl.runtime.world import Process

_log = logger("runtime.transfer")


@public_class()
class Transfer(TransferRoutine):
    """A copy of a node between contexts, created by `transfer` and executed by each call."""

    __slots__ = ("_destination", "_merges", "_node", "_source", "_target")

    def __init__(self, node: TNode, source: Context, destination: Context, merges: bool) -> None:
        self._node = node
        self._source = source
        self._destination = destination
        self._merges = merges
        first, second = sorted((source, destination), key=id)  # a global order prevents deadlock
        with first.lock, second.lock:
            destination.refuse_closed()
            source.require_array(node)
            if merges:
                self._target: Resident = destination.arrays.merge_buffer(node)
            else:
                destination.arrays.allocate([node])
                self._target = destination.arrays[node]

    def __call__(self) -> None:
        source, destination, node = self._source, self._destination, self._node
        first, second = sorted((source, destination), key=id)  # a global order prevents deadlock
        with first.lock, second.lock:
            destination.refuse_closed()
            resident = source.readable(node)
            _log.debug("%s", self.name)
            if not self._merges:
                destination.arrays.before_write((self._target,))
            if destination.device.reaches(source.device):
                self._copy(resident)
            else:
                self._copy_through_host()

    def _copy(self, resident: Resident) -> None:
        """Copies from device to device, asynchronously."""
        source, queue = self._source, self._destination.queue
        arrays = self._destination.arrays
        event = source.arrays.run(source.queue.record)
        if source is not self._destination:
            arrays.run(queue.wait, event)
        arrays.write(self._target, queue.copy, resident.where, self._target.where, self._size_bytes)
        if source is not self._destination:
            resident.readers = [*(r for r in resident.readers if not r.is_done()), queue.record()]
            source.arrays.lock.epoch += 1  # routines must check for readers before they write

    @property
    def _size_bytes(self) -> int:
        return math.prod(self._node.dims, start=self._node.precision.nbytes)

    def _copy_through_host(self) -> None:
        """Copies through the host, which waits for the source."""
        host = self._source.arrays.download(self._node)
        self._destination.arrays.write(self._target, self._destination.queue.from_host, self._target.where, host)

    # ------------------------------------------------------------------------------------------------- inspection

    @property
    def name(self) -> str:
        into = "merge buffer" if self._merges else "node"
        return f"transfer of {self._node.label} from {self._source} into {into} of {self._destination}"

    @property
    def inputs(self) -> tuple[TNode, ...]:
        return (self._node,)

    @property
    def outputs(self) -> tuple[TNode, ...]:
        """The nodes of the destination written by a call; merge buffers are not included."""
        return () if self._merges else (self._node,)

    def profile(self, calls: int = 10) -> Profile:
        """Measures the time and bytes of a call, with both contexts otherwise idle."""
        spans: list[Span] = []
        began = perf_counter_ns()
        for _ in range(calls):
            self._source.synchronize()
            self._destination.synchronize()
            start = perf_counter_ns()
            self()
            self._destination.synchronize()
            spans.append(Span(0, start - began, perf_counter_ns() - start))
        durations = [span.duration_ns for span in spans]
        size, typical = self._size_bytes, int(median(durations))
        row = ProfileRow(self._node.label, "transfer", calls, typical, min(durations), sum(durations), size, size)
        return Profile(self.name, self._destination.backend.name, calls, typical, (row,), tuple(spans))


def transfer(
    node: object, src: Context | Process, dst: Context | Process, into: str = "merge"
) -> Transfer | ProcessTransfer:
    """Creates a routine that copies a node from context `src` to context `dst`, into the node or into its merge buffer.
    Code reads the latter as `node.merge`; it can be compiled in `dst` after the transfer has been created. Raises
    `UninitializedError` if nothing in `src` has set the node or can compute it.

    The contexts may use different devices and backends. `src` or `dst` may be another process, as `world[rank]`, which
    creates the corresponding transfer with its own context and `world[...]` of this process. Raises `ProgramMismatch`
    in both processes if theirs is a transfer of another node.
    """
    for context in (src, dst):
        if not isinstance(context, Context | Process):
            raise CodeError(f"the source and destination of a transfer must be contexts, not {context!r}")
    if into not in ("merge", "node"):
        raise CodeError(f'the `into` of a transfer must be "merge" or "node", not {into!r}')
    if isinstance(src, Context) and isinstance(dst, Process):
        return ProcessTransfer(node_of(node), src, dst, into, sends=True)
    if isinstance(src, Process) and isinstance(dst, Context):
        return ProcessTransfer(node_of(node), dst, src, into, sends=False)
    if isinstance(src, Process) or isinstance(dst, Process):
        raise CodeError("the source or the destination of a transfer must be a context of this process")
    if src is dst and into == "node":
        raise CodeError("the source and destination of a transfer must be different contexts")
    return Transfer(node_of(node), src, dst, into == "merge")

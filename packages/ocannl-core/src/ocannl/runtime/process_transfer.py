"""Transfers between processes: one process creates the half that sends, another the half that receives.

The bytes of a node pass a slot, which holds one value: on one host, memory that both processes share; otherwise a
buffer on either side, between which the transport sends messages. The sender waits only while the value before is still
in the slot, so two processes may send to each other before both receive. For that the merge buffer is a copy: if it was
the slot itself, the next value could only be stored after the code that reads this one, and so after the next call that
receives, for which the other process may wait in turn. Two slots in turn would not have this defect, but the address of
a merge buffer is bound to routines when they are compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ocannl.base.errors import ProgramMismatch
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.tnode import TNode
from ocannl.runtime.context import Context
from ocannl.runtime.transfer_routine import TransferRoutine
from ocannl.runtime.world import Process

_DESCRIPTION_BYTES = 2048


@public_class()
class ProcessTransfer(TransferRoutine):
    """This process's half of a transfer to or from another process, created by `transfer` and executed by each call.

    A call that sends returns once the value is in the slot; a call that receives waits for the value.
    """

    __slots__ = ("_array", "_ctx", "_into", "_node", "_process", "_request", "_sends", "_target")

    def __init__(self, node: TNode, ctx: Context, process: Process, into: str, sends: bool) -> None:
        self._node, self._ctx, self._process, self._into, self._sends = node, ctx, process, into, sends
        with ctx.lock:
            ctx.refuse_closed()
            if sends:
                ctx.require_array(node)
            elif into == "node":
                ctx.arrays.allocate([node])
        self._agree()
        nbytes = math.prod(node.dims, start=node.precision.nbytes)
        slot, self._request = process.world.slot(process.rank, nbytes, sends)
        self._array: np.ndarray[Any, Any] = slot.view(node.precision.numpy).reshape(node.dims)
        if not sends:
            self._target = ctx.arrays.merge_buffer(node) if into == "merge" else ctx.arrays[node]
            self._request.start()

    def _agree(self) -> None:
        """Raises `ProgramMismatch` in both processes unless their halves fit together."""
        world, rank = self._process.world, self._process.rank
        described = np.zeros(_DESCRIPTION_BYTES, np.uint8)
        encoded = f"{'sends' if self._sends else 'receives'} {self._content}".encode()[:_DESCRIPTION_BYTES]
        described[: len(encoded)] = np.frombuffer(encoded, np.uint8)
        answer = world.exchange(rank, described)
        own, peer = (text.tobytes().rstrip(b"\0").decode(errors="replace") for text in (described, answer))
        directions = {text.partition(" ")[0] for text in (own, peer)}
        if len(directions) == 1 or own.partition(" ")[2] != peer.partition(" ")[2]:
            raise ProgramMismatch(
                "the halves of a transfer between two processes do not fit together:"
                f"\n  rank {world.rank} {own}\n  rank {rank} {peer}"
                "\n  fix  create the transfers between two processes in the same order in both, of the same nodes"
            )

    @property
    def _content(self) -> str:
        node = self._node
        return f"`{node.label}`, {node.precision} of sizes {list(node.dims)}, into {self._destination}"

    @property
    def _destination(self) -> str:
        return "the merge buffer" if self._into == "merge" else "the node"

    def __call__(self) -> None:
        self._process.world.require_open()
        if self._sends:
            self._send()
        else:
            self._receive()

    def _send(self) -> None:
        ctx, world = self._ctx, self._process.world
        world.wait(self._request, self._process.rank)  # until the value before has left
        with ctx.lock:
            ctx.refuse_closed()
            resident = ctx.readable(self._node)
            ctx.arrays.run(ctx.queue.to_host, resident.where, self._array)
            ctx.synchronize()
        self._request.start()

    def _receive(self) -> None:
        ctx, world = self._ctx, self._process.world
        world.wait(self._request, self._process.rank)
        with ctx.lock:
            ctx.refuse_closed()
            if self._into == "node":
                ctx.arrays.before_write((self._target,))
            ctx.arrays.write(self._target, ctx.queue.from_host, self._target.where, self._array)
            ctx.synchronize()
        self._request.start()

    # ------------------------------------------------------------------------------------------------- inspection

    @property
    def name(self) -> str:
        context, process = str(self._ctx), str(self._process)
        source, target = (context, process) if self._sends else (process, context)
        return f"transfer of {self._node.label} from {source} into {self._destination} of {target}"

    @property
    def inputs(self) -> tuple[TNode, ...]:
        return (self._node,) if self._sends else ()

    @property
    def outputs(self) -> tuple[TNode, ...]:
        """The nodes of this process written by a call; merge buffers are not included."""
        return (self._node,) if not self._sends and self._into == "node" else ()

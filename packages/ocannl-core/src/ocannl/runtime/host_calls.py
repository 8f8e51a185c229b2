"""Host calls in routines: Python functions that are executed between native programs.

    Comp = a; call; b    ==>    program a, call, program b

A routine with host calls is a sequence of *parts*. Those that are not calls are compiled and cached as separate
programs. Nodes that several parts access are kept. Every call waits until the queue has computed its inputs, and
executes in the thread of the caller, which may start others: as many as execute native programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ocannl.backend.api import Entry, Location, Queue
from ocannl.backend.cpu.queue import CpuQueue
from ocannl.base.errors import CodeError, HostCallError, OcannlError
from ocannl.base.row_blocks import host_threads
from ocannl.ir.affine import Sym
from ocannl.ir.assign import Comp, LabeledBlock, Seq, host_calls
from ocannl.ir.host_call import DeferredArray, HostCall
from ocannl.ir.tnode import TNode

Array = np.ndarray[Any, Any]


def split(code: Comp) -> Iterator[Comp | HostCall]:
    """The parts of the code, in order of execution. Raises: CodeError for a call inside a loop or a condition."""
    match code:
        case HostCall():
            yield code
        case LabeledBlock(text, body):
            for part in split(body):
                yield part if isinstance(part, HostCall) else LabeledBlock(text, part)
        case Seq(items):
            native: list[Comp] = []
            for part in (part for item in items for part in split(item)):
                if not isinstance(part, HostCall):
                    native.append(part)
                    continue
                if native:
                    yield Seq(tuple(native))
                yield part
                native = []
            if native:
                yield Seq(tuple(native))
        case _:
            call = next(host_calls(code), None)
            if call is not None:
                raise CodeError(
                    f"{call} is inside a loop or a condition, which is executed by native code only"
                    f"{position(call)}\n  fix  compute `{call.label}` outside of the loop"
                )
            yield code


def position(call: HostCall) -> str:
    return f"\n  in   {call.label}  {call.where}" if call.where else ""


# --- execution -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartsEntry:
    """Executes the parts of a routine; called with the values of the symbols, like other entries. It is never submitted
    to a queue: its parts are."""

    steps: tuple[Entry, ...]

    def __call__(self, *values: int) -> object:
        return any(step(*values) for step in self.steps)


def native_step(queue: Queue, entry: Entry, syms: Sequence[Sym], all_syms: Sequence[Sym]) -> Entry:
    """The step that executes a native program, given the symbols of the program and of the routine."""
    run = entry if queue.immediate else partial(queue.submit, entry)
    if syms == all_syms:
        return run
    numbers = [all_syms.index(sym) for sym in syms]
    return lambda *values: run(*[values[n] for n in numbers])


def host_step(queue: Queue, call: HostCall, routine: str, locate: Callable[[TNode], Location]) -> Entry:
    """The step that executes a host call. `locate` gives the location of a node in device memory."""
    arrays = {node: _HostAccess.of(queue, node, locate(node)) for node in call.nodes}
    threads = queue.control.threads if isinstance(queue, CpuQueue) else 1

    def step(*_: int) -> None:
        inputs = {node: arrays[node].read() for node in call.read}
        token = host_threads.set(threads)
        try:
            for node, value in call.results(call.function(*call.arguments(inputs.__getitem__))):
                arrays[node].write(value)
        except OcannlError:
            raise
        except Exception as error:  # of a function of the user
            raise HostCallError(
                f"{call} of routine `{routine}` failed: {type(error).__name__}: {error}{position(call)}"
            ) from error
        finally:
            host_threads.reset(token)

    return step


@dataclass(frozen=True, slots=True)
class _HostAccess:
    """Access to the array of a node from Python. Memory of the host is accessed in place, through `view`."""

    queue: Queue
    node: TNode
    where: Location
    view: Array | None

    @staticmethod
    def of(queue: Queue, node: TNode, where: Location) -> _HostAccess:
        if not isinstance(queue, CpuQueue):
            return _HostAccess(queue, node, where, None)
        like = np.broadcast_to(np.zeros((), node.precision.numpy), node.dims)
        return _HostAccess(queue, node, where, queue.device.array(where, like))

    def read(self) -> Array:
        if self.view is None:
            array = np.empty(self.node.dims, self.node.precision.numpy)
            self.queue.to_host(self.where, array)
            self.queue.synchronize()
            return array
        self.queue.synchronize()
        array = self.view.view()
        array.flags.writeable = False
        return array

    def write(self, value: Array | DeferredArray) -> None:
        if isinstance(value, DeferredArray):
            if self.view is not None and self.view.flags.c_contiguous and self.view.dtype == value.dtype:
                self.queue.synchronize()
                value.write(self.view)
                return
            value = value.array()
        with np.errstate(all="ignore"):
            if self.view is not None:
                self.queue.synchronize()
                np.copyto(self.view, value, casting="unsafe")
            else:
                self.queue.from_host(self.where, np.array(value, self.node.precision.numpy, order="C"))

"""Queues of work on the processor: one that is done with a call when the call returns, and one with a thread.

Both hand compiled code a `Control`, through which it lets other threads run Python, hears of Ctrl-C, and is cancelled.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ocannl.backend.api import Event, Location
from ocannl.backend.cpu.work_queue import Point, WorkQueue
from ocannl.base.errors import BackendError

if TYPE_CHECKING:
    from ocannl.backend.cpu.device import CpuDevice



class Control(ctypes.Structure):
    """What compiled code is given beside its arrays; the layout is part of the interface: see `codegen.params`."""

    _fields_ = (
        ("version", ctypes.c_int32),
        ("clock_id", ctypes.c_int32),
        ("cancel", ctypes.POINTER(ctypes.c_int32)),
        ("release", ctypes.c_void_p),
        ("acquire", ctypes.c_void_p),
        ("ensure", ctypes.c_void_p),
        ("restore", ctypes.c_void_p),
        ("signals", ctypes.c_void_p),
        ("clock", ctypes.c_void_p),
        ("asked_ns", ctypes.c_int64),
        ("team", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("deaf", ctypes.c_void_p),
    )

    @staticmethod
    def new(threads: int, *, handles_signals: bool) -> Control:
        cancel = ctypes.pointer(ctypes.c_int32(0))
        controls = [Control(1, CLOCK, cancel, **_functions(), threads=threads) for _ in range(2)]
        hearing, deaf = controls
        if handles_signals and deaf.clock:
            hearing.signals = _address(ctypes.pythonapi.PyErr_CheckSignals)
        hearing.deaf = deaf.deaf = ctypes.addressof(deaf)
        hearing.holds = controls[1:], cancel
        return hearing

    @property
    def cancelled(self) -> bool:
        return bool(self.cancel[0])

    @cancelled.setter
    def cancelled(self, told: bool) -> None:
        self.cancel[0] = told


CLOCK = getattr(time, "CLOCK_MONOTONIC", 0)


def _functions() -> dict[str, int | None]:
    api = ctypes.pythonapi
    return {
        "release": _address(api.PyEval_SaveThread),
        "acquire": _address(api.PyEval_RestoreThread),
        "ensure": _address(api.PyGILState_Ensure),
        "restore": _address(api.PyGILState_Release),
        "clock": _address(getattr(ctypes.CDLL(None), "clock_gettime", None)),
    }


def _address(function: Any) -> int | None:
    return function and ctypes.cast(function, ctypes.c_void_p).value


class Passed:
    """An event that lies in the past."""

    def is_done(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class CpuQueue:
    """What both have: copies as work for `submit`, and what compiled code is given."""

    device: CpuDevice
    control: Control
    submit: Callable[..., None]
    synchronize: Callable[[], None]

    def zero(self, where: Location, size_bytes: int) -> None:
        target = self.device.window(where, size_bytes)
        self.submit(lambda: target.fill(0))

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None:
        _require_contiguous(array)
        self.submit(partial(np.copyto, self.device.array(where, array), array))

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None:
        _require_contiguous(out)
        self.submit(partial(np.copyto, out, self.device.array(where, out)))

    def lend(self, where: Location, dims: tuple[int, ...], kind: np.dtype[Any], holds: object) -> object:
        """NumPy knows how to pass its arrays on. This one owns the slab's memory."""
        self.synchronize()
        return self.device.array(where, np.broadcast_to(np.zeros((), kind), dims))

    def borrow(self, array: object) -> None:
        """What lies in the memory of the host is an array like any other."""

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        taken, given = self.device.window(source, size_bytes), self.device.window(target, size_bytes)
        self.submit(lambda: np.copyto(given, taken))


class InlineQueue(CpuQueue):
    """Implements `Queue`: the calling thread does the work, so there is nothing to wait for."""

    immediate = True

    def __init__(self, device: CpuDevice, threads: int = 1) -> None:
        self.device = device
        self.control = Control.new(threads, handles_signals=True)

    def submit(self, work: Callable[..., object], *values: int) -> None:
        work(*values)

    def record(self) -> Event:
        return Passed()

    def wait(self, event: Event, *, needed: bool = True) -> None:
        _await(event, needed)

    def synchronize(self) -> None:
        pass


class ThreadedQueue(CpuQueue):
    """Implements `Queue`: a thread of its own does the work; it ends with the queue."""

    immediate = False

    def __init__(self, device: CpuDevice, threads: int = 1) -> None:
        self.device = device
        self.control = Control.new(threads, handles_signals=False)
        self._line = WorkQueue(self.control)
        weakref.finalize(self, self._line.end)

    def submit(self, work: Callable[..., object], *values: int) -> None:
        self._line.put((lambda: work(*values)) if values else work)

    def record(self) -> Event:
        point = Point()
        self._line.put(point)
        return point

    def wait(self, event: Event, *, needed: bool = True) -> None:
        if not event.is_done():
            self._line.put(lambda: _await(event, needed))

    def synchronize(self) -> None:
        """An exception here, such as an interrupt, cancels what runs and drops what waits."""
        try:
            self._line.put(point := Point())
            point.done.wait()
        except BaseException:
            self._line.cancel()
            raise
        self._line.refuse_broken()


def _await(event: Event, needed: bool) -> None:
    try:
        event.synchronize()
    except BackendError:
        if needed:
            raise


def _require_contiguous(array: np.ndarray[Any, Any]) -> None:
    if not array.flags.c_contiguous:
        raise ValueError("a host array that is copied to or from a device must be contiguous")

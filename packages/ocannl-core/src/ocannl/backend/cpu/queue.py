"""CPU queues: synchronous, or asynchronous with a worker thread.

Both pass compiled code a `Control`, with which it releases the GIL, checks for signals and polls for cancellation.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from ocannl.backend.api import Device, Event, Location
from ocannl.backend.cpu.host_slab import MIN_HUGE_BYTES, aligned_slab
from ocannl.backend.cpu.work_queue import QueueEvent, WorkQueue
from ocannl.base.errors import BackendError, OutOfMemory
from ocannl.ir.private_scope import LINE_BYTES, THREAD_BYTES

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class HostDevice(Device, Protocol):
    """A device whose memory the host can access."""

    def window(self, where: Location, size_bytes: int) -> Bytes:
        """Returns a view of the bytes."""
        ...

    def array(self, where: Location, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns a view of the memory, with the shape and type of `like`."""
        ...

    def address(self, where: Location) -> int: ...


class Control(ctypes.Structure):
    """The control block of compiled code; its layout is part of the ABI (see `codegen.abi`)."""

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
        ("signals_checked_ns", ctypes.c_int64),
        ("pool", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("without_signals", ctypes.c_void_p),
        ("private_arrays", ctypes.c_void_p),
        ("filled", ctypes.c_int64),
    )

    @staticmethod
    def new(threads: int, *, handles_signals: bool) -> Control:
        cancel = ctypes.pointer(ctypes.c_int32(0))
        controls = [Control(2, CLOCK, cancel, **_functions(), threads=threads) for _ in range(2)]
        control, without_signals = controls
        if handles_signals and without_signals.clock:
            control.signals = _address(ctypes.pythonapi.PyErr_CheckSignals)
        control.without_signals = without_signals.without_signals = ctypes.addressof(without_signals)
        control.holds = controls[1:], cancel
        return control

    @property
    def cancelled(self) -> bool:
        return bool(self.cancel[0])

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self.cancel[0] = value


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


class CompletedEvent:
    """An event that has already completed."""

    def is_done(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class CpuQueue:
    """Common base: copies are submitted as work; `control` is passed to compiled code."""

    device: HostDevice
    control: Control
    submit: Callable[..., None]
    synchronize: Callable[[], None]

    def reserve_private_arrays(self) -> None:
        """Allocates the memory of threads for private arrays, unless it has been allocated. It is not part of the
        budget of the device. Raises `OutOfMemory`."""
        control = self.control
        if control.private_arrays:
            return
        size_bytes = control.threads * THREAD_BYTES
        try:
            slab = aligned_slab(max(size_bytes, MIN_HUGE_BYTES))
        except MemoryError:
            raise OutOfMemory(f"no {size_bytes} bytes for private arrays of {control.threads} threads") from None
        slab.bytes[:size_bytes].reshape(control.threads, THREAD_BYTES)[:, :LINE_BYTES] = 0
        control.holds = (*control.holds, slab)
        control.private_arrays = slab.address

    def zero(self, where: Location, size_bytes: int) -> None:
        target = self.device.window(where, size_bytes)
        self.submit(lambda: target.fill(0))

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None:
        _require_contiguous(array)
        self.submit(partial(np.copyto, self.device.array(where, array), array))

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None:
        _require_contiguous(out)
        self.submit(partial(np.copyto, out, self.device.array(where, out)))

    def to_dlpack(self, where: Location, dims: tuple[int, ...], kind: np.dtype[Any], holds: object) -> object:
        """Returns a NumPy array, which implements DLPack and references the slab's memory."""
        self.synchronize()
        return self.device.array(where, np.broadcast_to(np.zeros((), kind), dims))

    def from_dlpack(self, array: object) -> None:
        """Returns None: arrays in host memory are uploaded like NumPy arrays."""

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        source_bytes, target_bytes = self.device.window(source, size_bytes), self.device.window(target, size_bytes)
        self.submit(lambda: np.copyto(target_bytes, source_bytes))


class InlineQueue(CpuQueue):
    """Implements `Queue`; work executes synchronously in the calling thread."""

    immediate = True

    def __init__(self, device: HostDevice, threads: int = 1) -> None:
        self.device = device
        self.control = Control.new(threads, handles_signals=True)

    def submit(self, work: Callable[..., object], *values: int) -> None:
        work(*values)

    def record(self) -> Event:
        return CompletedEvent()

    def wait(self, event: Event, *, needed: bool = True) -> None:
        _await(event, needed)

    def synchronize(self) -> None:
        pass


class ThreadedQueue(CpuQueue):
    """Implements `Queue`; work executes in a worker thread, which ends with the queue."""

    immediate = False

    def __init__(self, device: HostDevice, threads: int = 1) -> None:
        self.device = device
        self.control = Control.new(threads, handles_signals=False)
        self._work_queue = WorkQueue(self.control)
        weakref.finalize(self, self._work_queue.end)

    def submit(self, work: Callable[..., object], *values: int) -> None:
        self._work_queue.put((lambda: work(*values)) if values else work)

    def record(self) -> Event:
        point = QueueEvent()
        self._work_queue.put(point)
        return point

    def wait(self, event: Event, *, needed: bool = True) -> None:
        if not event.is_done():
            self._work_queue.put(lambda: _await(event, needed))

    def cancel(self) -> None:
        """Drops pending work, and stops running work at its next poll."""
        self._work_queue.cancel()

    def synchronize(self) -> None:
        """Waits for all work; an exception, such as an interrupt, cancels running work and drops pending work."""
        try:
            self._work_queue.put(point := QueueEvent())
            point.wait()
        except BaseException:
            self._work_queue.cancel()
            raise
        self._work_queue.refuse_broken()


def _await(event: Event, needed: bool) -> None:
    try:
        event.synchronize()
    except BackendError:
        if needed:
            raise


def _require_contiguous(array: np.ndarray[Any, Any]) -> None:
    if not array.flags.c_contiguous:
        raise ValueError("a host array that is copied to or from a device must be contiguous")

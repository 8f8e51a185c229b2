"""Queues of a GPU: streams, the points in them, and the pinned memory that arrays of the host pass through.

A stream does its work while the host goes on, so a queue that is not threaded only waits where the host's memory is
read or written. One that is threaded has a thread that does even that.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from ctypes import c_ubyte, c_void_p
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ocannl.backend import Location
from ocannl.backend.cpu.work_queue import Point, WorkQueue
from ocannl.base.errors import BackendError
from ocannl_backend_triton.dlpack import GPU, Kind, Lent, borrow
from ocannl_backend_triton.driver import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING

if TYPE_CHECKING:
    from ocannl.backend import Event
    from ocannl_backend_triton.device import CudaDevice

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Mark:
    """Implements `Event`: a point in a stream."""

    def __init__(self, device: CudaDevice, stream: c_void_p) -> None:
        self._device = device
        with device.current() as driver:
            self._handle = driver.handle("cuEventCreate", EVENT_DISABLE_TIMING)
            weakref.finalize(self, device.give_back, "cuEventDestroy_v2", self._handle)
            driver("cuEventRecord", self._handle, stream)

    def is_done(self) -> bool:
        with self._device.current() as driver:
            return driver.is_ready(self._handle)

    def synchronize(self) -> None:
        with self._device.current() as driver:
            driver("cuEventSynchronize", self._handle)

    def hold_up(self, stream: c_void_p) -> None:
        """What is put into the stream from now on begins after this."""
        with self._device.current() as driver:
            driver("cuStreamWaitEvent", stream, self._handle, 0)


class MarkPoint(Point):
    """Implements `Event`: a point in a line, whose thread puts a mark into the stream when it comes there."""

    __slots__ = ("_make", "_mark")

    def __init__(self, make: Callable[[], Mark]) -> None:
        super().__init__()
        self._make = make

    def reach(self) -> None:
        self._mark = self._make()

    def is_done(self) -> bool:
        return super().is_done() and self._mark.is_done()

    def synchronize(self) -> None:
        super().synchronize()
        self._mark.synchronize()

    def hold_up(self, stream: c_void_p) -> None:
        super().synchronize()
        self._mark.hold_up(stream)


class _InStream(Protocol):
    def hold_up(self, stream: c_void_p) -> None: ...


class Staging:
    """Pinned memory in pieces, used by turns: one travels while the host fills or empties another."""

    PIECE_BYTES = 4 << 20
    PIECES = 2

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._pieces: list[Bytes] = []
        self._marks: list[Mark | None] = [None] * self.PIECES
        self._turn = 0
        with device.current() as driver:
            for _ in range(self.PIECES):
                piece = driver.handle("cuMemHostAlloc", self.PIECE_BYTES, 0)
                weakref.finalize(self, device.give_back, "cuMemFreeHost", piece)
                assert piece.value is not None
                self._pieces.append(np.ctypeslib.as_array((c_ubyte * self.PIECE_BYTES).from_address(piece.value)))

    def upload(self, stream: c_void_p, address: int, source: Bytes) -> None:
        """When it returns, the source is no longer needed."""
        for start in range(0, source.nbytes, self.PIECE_BYTES):
            part = source[start : start + self.PIECE_BYTES]
            turn, piece = self._next(part.nbytes)
            np.copyto(piece, part)
            with self._device.current() as driver:
                driver("cuMemcpyHtoDAsync_v2", address + start, piece.ctypes.data, part.nbytes, stream)
            self._marks[turn] = Mark(self._device, stream)

    def download(self, stream: c_void_p, address: int, target: Bytes) -> None:
        """When it returns, the target is filled."""
        arriving: list[tuple[Mark, Bytes, Bytes]] = []
        for start in range(0, target.nbytes, self.PIECE_BYTES):
            part = target[start : start + self.PIECE_BYTES]
            turn, piece = self._next(part.nbytes)
            with self._device.current() as driver:
                driver("cuMemcpyDtoHAsync_v2", piece.ctypes.data, address + start, part.nbytes, stream)
            mark = self._marks[turn] = Mark(self._device, stream)
            arriving.append((mark, piece, part))
            if len(arriving) == self.PIECES:
                _arrived(*arriving.pop(0))
        for each in arriving:
            _arrived(*each)

    def _next(self, size_bytes: int) -> tuple[int, Bytes]:
        """A piece that no copy needs any more."""
        self._turn = (self._turn + 1) % self.PIECES
        mark = self._marks[self._turn]
        if mark is not None:
            mark.synchronize()
        return self._turn, self._pieces[self._turn][:size_bytes]


def _arrived(mark: Mark, piece: Bytes, part: Bytes) -> None:
    mark.synchronize()
    np.copyto(part, piece)


class StreamQueue:
    """Implements `Queue`: a stream of its own."""

    immediate = True

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        with device.current() as driver:
            self.stream = driver.handle("cuStreamCreate", STREAM_NON_BLOCKING)
        weakref.finalize(self, device.give_back, "cuStreamDestroy_v2", self.stream)
        self._staging: Staging | None = None
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., object], *values: int) -> None:
        """Entries of this queue keep its order by themselves; anything else is done by the host, in its turn."""
        if getattr(work, "stream", None) is not self.stream:
            self.synchronize()
        work(*values)

    def zero(self, where: Location, size_bytes: int) -> None:
        address = self.device.address(where, size_bytes)
        if size_bytes:
            with self.device.current() as driver:
                driver("cuMemsetD8Async", address, 0, size_bytes, self.stream)

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None:
        address = self.device.address(where, array.nbytes)
        with self._lock:
            self._staged().upload(self.stream, address, _flat(array))

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None:
        address = self.device.address(where, out.nbytes)
        with self._lock:
            self._staged().download(self.stream, address, _flat(out))

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        giver: CudaDevice = source.pool.device
        taken, given = giver.address(source, size_bytes), self.device.address(target, size_bytes)
        if size_bytes:
            with self.device.current() as driver:
                if giver is self.device:
                    driver("cuMemcpyDtoDAsync_v2", given, taken, size_bytes, self.stream)
                else:
                    here, there = self.device.context, giver.context
                    driver("cuMemcpyPeerAsync", given, here, taken, there, size_bytes, self.stream)

    def lend(self, where: Location, dims: tuple[int, ...], kind: Kind, holds: object) -> Lent:
        """Who uses the array begins after what has been submitted here so far."""
        size_bytes = math.prod(dims, start=kind.itemsize)

        def order(stream: int) -> None:
            self.record().hold_up(c_void_p(stream))

        address = self.device.address(where, size_bytes)
        return Lent(address, self.device.ordinal, dims, kind, (self, holds), order)

    def borrow(self, array: object) -> tuple[Location, tuple[int, ...], Kind] | None:
        where = getattr(array, "__dlpack_device__", lambda: None)()
        if where is None or where[0] != GPU:
            return None
        assert self.stream.value is not None
        return self.device.guest(borrow(array, self.stream.value))

    def record(self) -> Mark:
        return Mark(self.device, self.stream)

    def wait(self, event: Event, *, needed: bool = True) -> None:
        try:
            cast(_InStream, event).hold_up(self.stream)
        except BackendError:
            if needed:
                raise

    def synchronize(self) -> None:
        with self.device.current() as driver:
            driver("cuStreamSynchronize", self.stream)
        self.device.sweep()

    def _staged(self) -> Staging:
        if self._staging is None:
            self._staging = Staging(self.device)
        return self._staging


class ThreadedStreamQueue:
    """Implements `Queue`: a stream, and a thread that feeds it."""

    immediate = False

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._inner = StreamQueue(device)
        self._line = WorkQueue(SimpleNamespace(cancelled=False))  # a kernel that runs cannot be cancelled
        weakref.finalize(self, self._line.end)

    @property
    def stream(self) -> c_void_p:
        return self._inner.stream

    def submit(self, work: Callable[..., object], *values: int) -> None:
        inner = self._inner
        self._line.put(lambda: inner.submit(work, *values))

    def zero(self, where: Location, size_bytes: int) -> None:
        inner = self._inner
        self._line.put(lambda: inner.zero(where, size_bytes))

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None:
        inner = self._inner
        self._line.put(lambda: inner.from_host(where, array))

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None:
        inner = self._inner
        self._line.put(lambda: inner.to_host(where, out))

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        inner = self._inner
        self._line.put(lambda: inner.copy(source, target, size_bytes))

    def lend(self, where: Location, dims: tuple[int, ...], kind: Kind, holds: object) -> Lent:
        self.synchronize()
        return self._inner.lend(where, dims, kind, holds)

    def borrow(self, array: object) -> tuple[Location, tuple[int, ...], Kind] | None:
        return self._inner.borrow(array)

    def record(self) -> MarkPoint:
        point = MarkPoint(self._inner.record)
        self._line.put(point)
        return point

    def wait(self, event: Event, *, needed: bool = True) -> None:
        inner = self._inner
        self._line.put(lambda: inner.wait(event, needed=needed))

    def synchronize(self) -> None:
        """An exception here, such as an interrupt, drops what waits."""
        point = self.record()
        try:
            point.done.wait()
        except BaseException:
            self._line.cancel()
            raise
        self._line.refuse_broken()
        point.synchronize()


def _flat(array: np.ndarray[Any, Any]) -> Bytes:
    """The array's own memory, as bytes."""
    if not array.flags.c_contiguous:
        raise ValueError("a host array that is copied to or from a device must be contiguous")
    return array.reshape(-1).view(np.uint8)



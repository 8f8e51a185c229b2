"""Queues of a CUDA device: streams, events, and the pinned memory through which host arrays are transferred.

Streams run asynchronously, so a queue without a thread waits only where host memory is read or written. A threaded
queue does this on a thread of its own.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from ctypes import c_ubyte, c_void_p
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ocannl.backend import Device, Location
from ocannl.backend.cpu.work_queue import QueueEvent, WorkQueue
from ocannl.base.errors import BackendError
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.dlpack import CUDA_DEVICE, Dtype, ExportedArray, ImportedArray, import_array
from ocannl_backend_triton.driver import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING, Driver

if TYPE_CHECKING:
    from ocannl.backend import Event

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class StreamDevice(Device, Protocol):
    """The device that a stream belongs to."""

    driver: Driver

    @property
    def target(self) -> CudaTarget: ...

    @property
    def context(self) -> c_void_p: ...

    def current(self) -> AbstractContextManager[Driver]:
        """Makes the context of the device current in this thread."""
        ...

    def release(self, name: str, handle: c_void_p) -> None:
        """Calls a function of the driver that frees a handle; never raises."""
        ...

    def address(self, location: Location, size_bytes: int = 0) -> int: ...

    def defer(self, action: Callable[[], None]) -> None:
        """Runs an action once all work submitted so far has completed."""
        ...

    def reclaim(self) -> None:
        """Runs deferred actions whose preceding work has completed."""
        ...

    def import_array(self, array: ImportedArray) -> tuple[Location, tuple[int, ...], Dtype]: ...


class StreamEvent:
    """Implements `Event`: a point in a stream."""

    def __init__(self, device: StreamDevice, stream: c_void_p) -> None:
        self._device = device
        with device.current() as driver:
            self._handle = driver.get_handle("cuEventCreate", EVENT_DISABLE_TIMING)
            weakref.finalize(self, device.release, "cuEventDestroy_v2", self._handle)
            driver("cuEventRecord", self._handle, stream)

    def is_done(self) -> bool:
        with self._device.current() as driver:
            return driver.is_ready(self._handle)

    def synchronize(self) -> None:
        with self._device.current() as driver:
            driver("cuEventSynchronize", self._handle)

    def block_stream(self, stream: c_void_p) -> None:
        """Makes work submitted to the stream from now on wait for this event."""
        with self._device.current() as driver:
            driver("cuStreamWaitEvent", stream, self._handle, 0)


class ThreadedStreamEvent(QueueEvent):
    """Implements `FallibleEvent`: a position in a work queue, whose thread records a stream event there."""

    __slots__ = ("_create", "_event")

    def __init__(self, create: Callable[[], StreamEvent]) -> None:
        super().__init__()
        self._create = create

    def reach(self) -> None:
        self._event = self._create()

    def is_done(self) -> bool:
        return super().is_done() and self._event.is_done()

    def has_ended(self) -> bool:
        return super().has_ended() and (self.error is not None or self._event.is_done())

    def synchronize(self) -> None:
        super().synchronize()
        self._event.synchronize()

    def block_stream(self, stream: c_void_p) -> None:
        super().synchronize()
        self._event.block_stream(stream)


class _BlocksStreams(Protocol):
    def block_stream(self, stream: c_void_p) -> None: ...


class StagingBuffers:
    """Pinned buffers used round robin, so that one is transferred while the host fills or empties another."""

    BUFFER_BYTES = 4 << 20
    NUM_BUFFERS = 2

    def __init__(self, device: StreamDevice) -> None:
        self._device = device
        self._buffers: list[Bytes] = []
        self._events: list[StreamEvent | None] = [None] * self.NUM_BUFFERS
        self._index = 0
        with device.current() as driver:
            for _ in range(self.NUM_BUFFERS):
                buffer = driver.get_handle("cuMemHostAlloc", self.BUFFER_BYTES, 0)
                weakref.finalize(self, device.release, "cuMemFreeHost", buffer)
                assert buffer.value is not None
                self._buffers.append(np.ctypeslib.as_array((c_ubyte * self.BUFFER_BYTES).from_address(buffer.value)))

    def upload(self, stream: c_void_p, address: int, source: Bytes) -> None:
        """Copies a host array to the device. The array may be changed after the return."""
        for start in range(0, source.nbytes, self.BUFFER_BYTES):
            part = source[start : start + self.BUFFER_BYTES]
            index, buffer = self._next_buffer(part.nbytes)
            np.copyto(buffer, part)
            with self._device.current() as driver:
                driver("cuMemcpyHtoDAsync_v2", address + start, buffer.ctypes.data, part.nbytes, stream)
            self._events[index] = StreamEvent(self._device, stream)

    def download(self, stream: c_void_p, address: int, target: Bytes) -> None:
        """Copies device memory to a host array, which is complete on return."""
        in_flight: list[tuple[StreamEvent, Bytes, Bytes]] = []
        for start in range(0, target.nbytes, self.BUFFER_BYTES):
            part = target[start : start + self.BUFFER_BYTES]
            index, buffer = self._next_buffer(part.nbytes)
            with self._device.current() as driver:
                driver("cuMemcpyDtoHAsync_v2", buffer.ctypes.data, address + start, part.nbytes, stream)
            event = self._events[index] = StreamEvent(self._device, stream)
            in_flight.append((event, buffer, part))
            if len(in_flight) == self.NUM_BUFFERS:
                _complete_download(*in_flight.pop(0))
        for transfer in in_flight:
            _complete_download(*transfer)

    def _next_buffer(self, size_bytes: int) -> tuple[int, Bytes]:
        """The next buffer, after the last transfer that used it."""
        self._index = (self._index + 1) % self.NUM_BUFFERS
        event = self._events[self._index]
        if event is not None:
            event.synchronize()
        return self._index, self._buffers[self._index][:size_bytes]


def _complete_download(event: StreamEvent, buffer: Bytes, part: Bytes) -> None:
    event.synchronize()
    np.copyto(part, buffer)


class StreamQueue:
    """Implements `Queue`: a CUDA stream."""

    immediate = True

    def __init__(self, device: StreamDevice) -> None:
        self.device = device
        with device.current() as driver:
            self.stream = driver.get_handle("cuStreamCreate", STREAM_NON_BLOCKING)
        weakref.finalize(self, device.release, "cuStreamDestroy_v2", self.stream)
        self._staging: StagingBuffers | None = None
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., object], *values: int) -> None:
        """Entries of this queue are ordered by its stream; other work runs on the host after a synchronization."""
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
            self._get_staging().upload(self.stream, address, _flat(array))

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None:
        address = self.device.address(where, out.nbytes)
        with self._lock:
            self._get_staging().download(self.stream, address, _flat(out))

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        source_device: StreamDevice = source.pool.device
        source_address = source_device.address(source, size_bytes)
        target_address = self.device.address(target, size_bytes)
        if size_bytes:
            with self.device.current() as driver:
                if source_device is self.device:
                    driver("cuMemcpyDtoDAsync_v2", target_address, source_address, size_bytes, self.stream)
                else:
                    source_end = source_address, source_device.context
                    target_end = target_address, self.device.context
                    driver("cuMemcpyPeerAsync", *target_end, *source_end, size_bytes, self.stream)

    def to_dlpack(self, where: Location, dims: tuple[int, ...], dtype: Dtype, holds: object) -> ExportedArray:
        """Exports memory; its users are ordered after all work submitted here so far."""
        size_bytes = math.prod(dims, start=dtype.itemsize)

        def block_stream(stream: int) -> None:
            self.record().block_stream(c_void_p(stream))

        address = self.device.address(where, size_bytes)
        return ExportedArray(address, self.device.ordinal, dims, dtype, (self, holds), block_stream)

    def from_dlpack(self, array: object) -> tuple[Location, tuple[int, ...], Dtype] | None:
        device = getattr(array, "__dlpack_device__", lambda: None)()
        if device is None or device[0] != CUDA_DEVICE:
            return None
        assert self.stream.value is not None
        return self.device.import_array(import_array(array, self.stream.value))

    def record(self) -> StreamEvent:
        return StreamEvent(self.device, self.stream)

    def wait(self, event: Event, *, needed: bool = True) -> None:
        try:
            cast(_BlocksStreams, event).block_stream(self.stream)
        except BackendError:
            if needed:
                raise

    def synchronize(self) -> None:
        with self.device.current() as driver:
            driver("cuStreamSynchronize", self.stream)
        self.device.reclaim()

    def _get_staging(self) -> StagingBuffers:
        if self._staging is None:
            self._staging = StagingBuffers(self.device)
        return self._staging


class ThreadedStreamQueue:
    """Implements `Queue`: a stream, and a thread that submits to it."""

    immediate = False

    def __init__(self, device: StreamDevice) -> None:
        self.device = device
        self._inner = StreamQueue(device)
        self._work_queue = WorkQueue(SimpleNamespace(cancelled=False))  # running kernels cannot be cancelled
        weakref.finalize(self, self._work_queue.end)

    @property
    def stream(self) -> c_void_p:
        return self._inner.stream

    def submit(self, work: Callable[..., object], *values: int) -> None:
        inner = self._inner
        self._work_queue.put(lambda: inner.submit(work, *values))

    def zero(self, where: Location, size_bytes: int) -> None:
        inner = self._inner
        self._work_queue.put(lambda: inner.zero(where, size_bytes))

    def from_host(self, where: Location, array: np.ndarray[Any, Any]) -> None:
        inner = self._inner
        self._work_queue.put(lambda: inner.from_host(where, array))

    def to_host(self, where: Location, out: np.ndarray[Any, Any]) -> None:
        inner = self._inner
        self._work_queue.put(lambda: inner.to_host(where, out))

    def copy(self, source: Location, target: Location, size_bytes: int) -> None:
        inner = self._inner
        self._work_queue.put(lambda: inner.copy(source, target, size_bytes))

    def to_dlpack(self, where: Location, dims: tuple[int, ...], dtype: Dtype, holds: object) -> ExportedArray:
        self.synchronize()
        return self._inner.to_dlpack(where, dims, dtype, holds)

    def from_dlpack(self, array: object) -> tuple[Location, tuple[int, ...], Dtype] | None:
        return self._inner.from_dlpack(array)

    def record(self) -> ThreadedStreamEvent:
        event = ThreadedStreamEvent(self._inner.record)
        self._work_queue.put(event)
        return event

    def wait(self, event: Event, *, needed: bool = True) -> None:
        inner = self._inner
        self._work_queue.put(lambda: inner.wait(event, needed=needed))

    def synchronize(self) -> None:
        """Waits for all work. An exception during the wait, such as an interrupt, cancels queued work."""
        event = self.record()
        try:
            event.wait()
        except BaseException:
            self._work_queue.cancel()
            raise
        self._work_queue.refuse_broken()
        event.synchronize()


def _flat(array: np.ndarray[Any, Any]) -> Bytes:
    """The memory of a contiguous array as bytes, without a copy."""
    if not array.flags.c_contiguous:
        raise ValueError("a host array that is copied to or from a device must be contiguous")
    return array.reshape(-1).view(np.uint8)



"""CUDA devices: memory from the driver's stream-ordered pools, and queues.

Freed memory is released once all work submitted before has completed. The host does not wait for that: later
allocations and synchronizations check for completed work.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import byref, c_uint64, c_void_p, create_string_buffer
from dataclasses import dataclass
from functools import cached_property

from ocannl.backend import Device, Event, Location, OutOfMemory, Queue
from ocannl.base.errors import BackendError
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.dlpack import Dtype, ImportedArray
from ocannl_backend_triton.driver import (
    ACCESS_READ_WRITE,
    ALLOCATION_PINNED,
    LOCATION_DEVICE,
    MEMPOOL_RELEASE_THRESHOLD,
    STREAM_NON_BLOCKING,
    Attribute,
    Driver,
    MemAccess,
    MemLocation,
    MemPoolProps,
)  # fmt: skip
from ocannl_backend_triton.streams import StreamQueue, ThreadedStreamQueue


@dataclass(eq=False, slots=True, weakref_slot=True)
class DeviceSlab:
    """A block of device memory, until it is freed."""

    device: CudaDevice
    address: int
    size_bytes: int


class ScratchMemory:
    """Device memory that is freed when the last reference to it is dropped."""

    def __init__(self, device: Device, size_bytes: int) -> None:
        slab: DeviceSlab = device.alloc_pool(size_bytes)
        self.address, self.size_bytes = slab.address, size_bytes
        weakref.finalize(self, device.free_pool, slab)


class CudaDevice:
    """Implements `Device`."""

    def __init__(self, driver: Driver, ordinal: int, all_devices: Sequence[CudaDevice]) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self._all_devices = all_devices  # of this process, including this one
        self._bytes_in_use = 0
        self._reclaim_lock = threading.Lock()
        self._count_lock = threading.RLock()
        self._queues: weakref.WeakSet[StreamQueue | ThreadedStreamQueue] = weakref.WeakSet()
        self._deferred: deque[Callable[[], None]] = deque()
        self._pending: deque[tuple[list[Event], list[Callable[[], None]]]] = deque()  # events, actions after them
        self._handle = driver.get_int("cuDeviceGet", ordinal)

    # ------------------------------------------------------------------------------------------------- properties

    def attribute(self, attribute: Attribute) -> int:
        return self.driver.get_int("cuDeviceGetAttribute", attribute, self._handle)

    @cached_property
    def name(self) -> str:
        text = create_string_buffer(256)
        self.driver("cuDeviceGetName", text, len(text), self._handle)
        return text.value.decode(errors="replace")

    @cached_property
    def memory_bytes(self) -> int:
        total = c_uint64()
        self.driver("cuDeviceTotalMem_v2", byref(total), self._handle)
        return total.value

    @cached_property
    def target(self) -> CudaTarget:
        major, minor, shared, multiprocessors = map(
            self.attribute,
            (
                Attribute.COMPUTE_CAPABILITY_MAJOR,
                Attribute.COMPUTE_CAPABILITY_MINOR,
                Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                Attribute.MULTIPROCESSOR_COUNT,
            ),
        )
        return CudaTarget(10 * major + minor, shared, multiprocessors)

    @cached_property
    def context(self) -> c_void_p:
        """The primary context, shared by all libraries of the process and created on first use."""
        return self.driver.get_handle("cuDevicePrimaryCtxRetain", self._handle)

    @contextmanager
    def current(self) -> Iterator[Driver]:
        with self.driver.current(self.context):
            yield self.driver

    def release(self, name: str, handle: c_void_p) -> None:
        """Calls a function of the driver that frees a handle; never raises."""
        if self.driver.closed is None:
            self.driver.release("cuCtxPushCurrent_v2", self.context)
            self.driver.release(name, handle)
            self.driver.release("cuCtxPopCurrent_v2", byref(c_void_p()))

    # ---------------------------------------------------------------------------------------------------- memory

    @cached_property
    def _stream(self) -> c_void_p:
        """A stream used only for allocation and deallocation."""
        return self.driver.get_handle("cuStreamCreate", STREAM_NON_BLOCKING)

    @cached_property
    def _pool(self) -> c_void_p:
        """A memory pool that retains freed memory for reuse."""
        props = MemPoolProps(allocType=ALLOCATION_PINNED, location=MemLocation(LOCATION_DEVICE, self._handle))
        pool = self.driver.get_handle("cuMemPoolCreate", byref(props))
        unlimited = c_uint64(2**64 - 1)
        self.driver("cuMemPoolSetAttribute", pool, MEMPOOL_RELEASE_THRESHOLD, byref(unlimited))
        peers = [device for device in self._all_devices if device is not self and device.can_access(self)]
        if peers:
            locations = (MemLocation(LOCATION_DEVICE, device._handle) for device in peers)
            access = (MemAccess * len(peers))(*(MemAccess(location, ACCESS_READ_WRITE) for location in locations))
            self.driver("cuMemPoolSetAccess", pool, access, len(peers))
        return pool

    @property
    def bytes_in_use(self) -> int:
        return self._bytes_in_use

    def alloc_pool(self, size_bytes: int) -> DeviceSlab:
        self.reclaim()
        message = (
            f"no {size_bytes} bytes to give on {self.name}; {self._bytes_in_use} of {self.memory_bytes} are in use"
        )
        if self._bytes_in_use + size_bytes > self.memory_bytes:
            raise OutOfMemory(message)
        try:
            address = self._allocate(max(1, size_bytes))
        except OutOfMemory:
            self.drain()
            try:
                address = self._allocate(max(1, size_bytes))
            except OutOfMemory as error:
                raise OutOfMemory(f"{message}, and other programs may use some: {error}") from None
        with self._count_lock:
            self._bytes_in_use += size_bytes
        return DeviceSlab(self, address, size_bytes)

    def _allocate(self, size_bytes: int) -> int:
        with self.current() as driver:
            address = driver.get_handle("cuMemAllocFromPoolAsync", size_bytes, self._pool, self._stream)
            driver("cuStreamSynchronize", self._stream)  # any stream may use it
        assert address.value is not None
        return address.value

    def free_pool(self, pool: DeviceSlab) -> None:
        with self._count_lock:
            self._bytes_in_use -= pool.size_bytes
        self.defer(lambda: self._free(pool.address))

    def _free(self, address: int) -> None:
        with self.current() as driver:
            driver("cuMemFreeAsync", address, self._stream)

    def defer(self, action: Callable[[], None]) -> None:
        """Runs an action once all work submitted so far has completed.

        Called by finalizers in arbitrary threads: runs nothing immediately and takes no lock.
        """
        self._deferred.append(action)

    def reclaim(self) -> None:
        """Runs deferred actions whose preceding work has completed; returns at once if another thread does so."""
        if not (self._deferred or self._pending) or self.driver.closed is not None:
            return
        if self._reclaim_lock.acquire(blocking=False):
            try:
                actions = [self._deferred.popleft() for _ in range(len(self._deferred))]
                if actions:
                    queues = [queue for device in self._all_devices for queue in list(device._queues)]
                    self._pending.append(([queue.record() for queue in queues], actions))
                while self._pending and all(_is_reached(event) for event in self._pending[0][0]):
                    for action in self._pending.popleft()[1]:
                        action()
            finally:
                self._reclaim_lock.release()

    def drain(self) -> None:
        """Waits for all deferred actions, and returns unused memory of the pool to the driver."""
        self.reclaim()
        for event in [event for events, _ in list(self._pending) for event in events]:
            with suppress(BackendError):
                event.synchronize()
        self.reclaim()
        with self.current() as driver:
            driver("cuStreamSynchronize", self._stream)
            driver("cuMemPoolTrimTo", self._pool, 0)

    def import_array(self, array: ImportedArray) -> tuple[Location, tuple[int, ...], Dtype]:
        """Wraps another library's memory in a slab; its owner is notified once no work submitted here can access it."""
        size_bytes = math.prod(array.dims, start=array.dtype.itemsize)
        slab = DeviceSlab(self._all_devices[array.device[1]], array.address, size_bytes)
        weakref.finalize(slab, self.defer, array.release)
        return Location(slab, 0), array.dims, array.dtype

    def address(self, location: Location, size_bytes: int = 0) -> int:
        slab: DeviceSlab = location.pool
        start, stop = location.offset_bytes, location.offset_bytes + size_bytes
        if start < 0 or stop > slab.size_bytes:
            raise IndexError(f"bytes {start} to {stop} of a slab of {slab.size_bytes}")
        return slab.address + start

    # ---------------------------------------------------------------------------------------------------- queues

    def can_access(self, peer: CudaDevice) -> bool:
        """Whether this device can read the peer's memory."""
        return bool(self.driver.get_int("cuDeviceCanAccessPeer", self._handle, peer._handle))

    def reaches(self, source: Device) -> bool:
        return isinstance(source, CudaDevice) and (source is self or self.can_access(source))

    def queue(self, threaded: bool, threads: int = 1) -> Queue:
        queue = ThreadedStreamQueue(self) if threaded else StreamQueue(self)
        self._queues.add(queue)
        return queue


def _is_reached(event: Event) -> bool:
    """Whether nothing before the event is still running; a broken queue runs nothing any more."""
    return event.is_done() or getattr(event, "error", None) is not None


def devices(driver: Driver) -> tuple[CudaDevice, ...]:
    """The devices that the driver exposes, which environment variables such as CUDA_VISIBLE_DEVICES limit."""
    all_devices: list[CudaDevice] = []
    for ordinal in range(driver.get_int("cuDeviceGetCount")):
        all_devices.append(CudaDevice(driver, ordinal, all_devices))
    return tuple(all_devices)

"""GPUs as devices: slabs out of a pool of the driver's, and queues.

What is given back is freed when all that was submitted before has been done, so that the host need not wait for it: the
next who takes memory, or waits for a queue, looks whether it is so.
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
from ocannl_backend_triton.dlpack import Borrowed, Kind
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
from ocannl_backend_triton.target import Target


@dataclass(eq=False, slots=True, weakref_slot=True)
class Slab:
    """Memory of a device, until it is given back."""

    device: CudaDevice
    address: int
    size_bytes: int


class Scratch:
    """Memory of a device that is given back when nobody refers to it any more."""

    def __init__(self, device: CudaDevice, size_bytes: int) -> None:
        slab = device.alloc_pool(size_bytes)
        self.address, self.size_bytes = slab.address, size_bytes
        weakref.finalize(self, device.free_pool, slab)


class CudaDevice:
    """Implements `Device`."""

    def __init__(self, driver: Driver, ordinal: int, others: Sequence[CudaDevice]) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self._others = others  # all devices of this process, this one included
        self._in_use = 0
        self._sweeping = threading.Lock()
        self._counting = threading.RLock()
        self._queues: weakref.WeakSet[StreamQueue | ThreadedStreamQueue] = weakref.WeakSet()
        self._given_up: deque[Callable[[], None]] = deque()
        self._leaving: deque[tuple[list[Event], list[Callable[[], None]]]] = deque()  # what waits for points in queues
        self._handle = driver.number("cuDeviceGet", ordinal)

    # ------------------------------------------------------------------------------------------------- what it is

    def attribute(self, attribute: Attribute) -> int:
        return self.driver.number("cuDeviceGetAttribute", attribute, self._handle)

    @cached_property
    def name(self) -> str:
        text = create_string_buffer(256)
        self.driver("cuDeviceGetName", text, len(text), self._handle)
        return text.value.decode(errors="replace")

    @cached_property
    def memory_bytes(self) -> int:
        found = c_uint64()
        self.driver("cuDeviceTotalMem_v2", byref(found), self._handle)
        return found.value

    @cached_property
    def target(self) -> Target:
        major, minor, shared, multiprocessors = map(
            self.attribute,
            (
                Attribute.COMPUTE_CAPABILITY_MAJOR,
                Attribute.COMPUTE_CAPABILITY_MINOR,
                Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                Attribute.MULTIPROCESSOR_COUNT,
            ),
        )
        return Target(10 * major + minor, shared, multiprocessors)

    @cached_property
    def context(self) -> c_void_p:
        """The one that everybody in the process shares; it is made now, if nobody has yet."""
        return self.driver.handle("cuDevicePrimaryCtxRetain", self._handle)

    @contextmanager
    def current(self) -> Iterator[Driver]:
        with self.driver.current(self.context):
            yield self.driver

    def give_back(self, name: str, handle: c_void_p) -> None:
        """Calls a function that frees something; never fails."""
        if self.driver.closed is None:
            self.driver.give_back("cuCtxPushCurrent_v2", self.context)
            self.driver.give_back(name, handle)
            self.driver.give_back("cuCtxPopCurrent_v2", byref(c_void_p()))

    # ---------------------------------------------------------------------------------------------------- memory

    @cached_property
    def _stream(self) -> c_void_p:
        """In which memory is taken and freed, and nothing else happens."""
        return self.driver.handle("cuStreamCreate", STREAM_NON_BLOCKING)

    @cached_property
    def _pool(self) -> c_void_p:
        """Keeps what is freed for the next who needs it."""
        props = MemPoolProps(allocType=ALLOCATION_PINNED, location=MemLocation(LOCATION_DEVICE, self._handle))
        pool = self.driver.handle("cuMemPoolCreate", byref(props))
        everything = c_uint64(2**64 - 1)
        self.driver("cuMemPoolSetAttribute", pool, MEMPOOL_RELEASE_THRESHOLD, byref(everything))
        near = [other for other in self._others if other is not self and other.sees(self)]
        if near:
            places = (MemLocation(LOCATION_DEVICE, other._handle) for other in near)
            access = (MemAccess * len(near))(*(MemAccess(place, ACCESS_READ_WRITE) for place in places))
            self.driver("cuMemPoolSetAccess", pool, access, len(near))
        return pool

    @property
    def bytes_in_use(self) -> int:
        return self._in_use

    def alloc_pool(self, size_bytes: int) -> Slab:
        self.sweep()
        refusal = f"no {size_bytes} bytes to give on {self.name}; {self._in_use} of {self.memory_bytes} are in use"
        if self._in_use + size_bytes > self.memory_bytes:
            raise OutOfMemory(refusal)
        try:
            address = self._taken(max(1, size_bytes))
        except OutOfMemory:
            self.clear()
            try:
                address = self._taken(max(1, size_bytes))
            except OutOfMemory as wrong:
                raise OutOfMemory(f"{refusal}, and other programs may use some: {wrong}") from None
        with self._counting:
            self._in_use += size_bytes
        return Slab(self, address, size_bytes)

    def _taken(self, size_bytes: int) -> int:
        with self.current() as driver:
            address = driver.handle("cuMemAllocFromPoolAsync", size_bytes, self._pool, self._stream)
            driver("cuStreamSynchronize", self._stream)  # any stream may use it
        assert address.value is not None
        return address.value

    def free_pool(self, pool: Slab) -> None:
        with self._counting:
            self._in_use -= pool.size_bytes
        self.later(lambda: self._freed(pool.address))

    def _freed(self, address: int) -> None:
        with self.current() as driver:
            driver("cuMemFreeAsync", address, self._stream)

    def later(self, action: Callable[[], None]) -> None:
        """Does something once nothing that has been submitted so far can need it to be undone.

        Finalizers come here, in whatever thread: so nothing is done now, and no lock taken that others hold for long.
        """
        self._given_up.append(action)

    def sweep(self) -> None:
        """Does what can be done now of all that was put off; who comes while another does it need not."""
        if not (self._given_up or self._leaving) or self.driver.closed is not None:
            return
        if self._sweeping.acquire(blocking=False):
            try:
                given_up = [self._given_up.popleft() for _ in range(len(self._given_up))]
                if given_up:
                    queues = [queue for device in self._others for queue in list(device._queues)]
                    self._leaving.append(([queue.record() for queue in queues], given_up))
                while self._leaving and all(_is_past(event) for event in self._leaving[0][0]):
                    for action in self._leaving.popleft()[1]:
                        action()
            finally:
                self._sweeping.release()

    def clear(self) -> None:
        """Waits until all that was put off is done, and gives back what the pool keeps."""
        self.sweep()
        for event in [event for events, _ in list(self._leaving) for event in events]:
            with suppress(BackendError):
                event.synchronize()
        self.sweep()
        with self.current() as driver:
            driver("cuStreamSynchronize", self._stream)
            driver("cuMemPoolTrimTo", self._pool, 0)

    def guest(self, array: Borrowed) -> tuple[Location, tuple[int, ...], Kind]:
        """Memory of another library as a slab, whose owner hears of it when nothing here can need it any more."""
        size_bytes = math.prod(array.dims, start=array.kind.itemsize)
        slab = Slab(self._others[array.device[1]], array.address, size_bytes)
        weakref.finalize(slab, self.later, array.done)
        return Location(slab, 0), array.dims, array.kind

    def address(self, where: Location, size_bytes: int = 0) -> int:
        slab: Slab = where.pool
        start, stop = where.offset_bytes, where.offset_bytes + size_bytes
        if start < 0 or stop > slab.size_bytes:
            raise IndexError(f"bytes {start} to {stop} of a slab of {slab.size_bytes}")
        return slab.address + start

    # ---------------------------------------------------------------------------------------------------- queues

    def sees(self, other: CudaDevice) -> bool:
        """Whether this device can read the other's memory."""
        return bool(self.driver.number("cuDeviceCanAccessPeer", self._handle, other._handle))

    def reaches(self, other: Device) -> bool:
        return isinstance(other, CudaDevice) and (other is self or self.sees(other))

    def queue(self, threaded: bool, threads: int = 1) -> Queue:
        made = ThreadedStreamQueue(self) if threaded else StreamQueue(self)
        self._queues.add(made)
        return made


def _is_past(event: Event) -> bool:
    """A broken queue does not come to the point, and needs nothing any more."""
    return event.is_done() or getattr(event, "error", None) is not None


def devices(driver: Driver) -> tuple[CudaDevice, ...]:
    """Those that the driver shows, which environment variables such as CUDA_VISIBLE_DEVICES limit."""
    found: list[CudaDevice] = []
    for ordinal in range(driver.number("cuDeviceGetCount")):
        found.append(CudaDevice(driver, ordinal, found))
    return tuple(found)

"""The kit sees every lie about memory and order: devices and queues of the processor, each wrong in one way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from ocannl.backend import Backend, Location, OutOfMemory
from ocannl.backend.cpu.device import CpuDevice, cores
from ocannl.backend.cpu.queue import CompletedEvent, InlineQueue, ThreadedQueue
from ocannl_backend_example.backend import ExampleBackend

LIES: list[tuple[str, str, Callable[[], Backend]]] = []


class Mutant(ExampleBackend):
    name = "mutant"


def lie(defect, area):
    def note(backend):
        LIES.append((defect, area, backend))
        return backend

    return note


class Device(CpuDevice):
    """With queues of any kind."""

    __slots__ = ()
    inline, threaded = InlineQueue, ThreadedQueue

    def queue(self, threaded, threads=1):
        return (self.threaded if threaded else self.inline)(self, threads)


def on(device):
    """A backend whose devices are of this kind."""

    class On(Mutant):
        def __init__(self):
            self.devices = [device(n) for n in range(max(8, cores()))]

        def device_count(self):
            return len(self.devices)

        def device(self, ordinal):
            return self.devices[ordinal]

    return On


def device(defect, area):
    def note(kind):
        LIES.append((defect, area, on(kind)))
        return kind

    return note


def as_bytes(array):
    return array.reshape(-1).view(np.uint8)


def queueing(defect, area, **methods):
    """Methods of both kinds of queue."""
    kinds = {
        mode: type(base.__name__, (base,), {n: m for n, m in methods.items() if n != "only"})
        for mode, base in (("inline", InlineQueue), ("threaded", ThreadedQueue))
        if mode in methods.get("only", ("inline", "threaded"))
    }
    LIES.append((defect, area, on(type("Lying", (Device,), {"__slots__": (), **kinds}))))


queueing("nobody waits for events", "Queues", wait=lambda self, event: None)
queueing("events have passed at once", "Queues", record=lambda self: CompletedEvent())
queueing("synchronizing does not wait", "Queues", synchronize=lambda self: None, only=("threaded",))
# fmt: off
queueing("zeroing goes one byte too far", "Memory",
         zero=lambda self, where, size: self.device.window(where, min(size + 1, where.pool.bytes.size)).fill(0))
queueing("copies begin where slabs do", "Memory", only=("inline",),
         copy=lambda self, a, b, size: InlineQueue.copy(self, Location(a.pool, 0), b, size))
queueing("copies are done before their turn", "Queues",
         copy=lambda self, a, b, size: np.copyto(self.device.window(b, size), self.device.window(a, size)))
queueing("values are lost on the way", "Queues", submit=lambda self, work, *values: work())
queueing("reading takes the bytes of before", "Queues", only=("threaded",),
         to_host=lambda self, where, out: np.copyto(as_bytes(out), self.device.window(where, out.nbytes)))
# fmt: on


@device("a threaded queue makes its caller wait", "Queues")
class Waiting(Device):
    __slots__ = ()
    threaded = type("Inline", (InlineQueue,), {"immediate": False})


class Swapping(ThreadedQueue):
    """The second of two pieces of work comes first."""

    pending = None

    def submit(self, work, *values):
        if self.pending is None:
            self.pending = (work, values)
            return
        first, self.pending = self.pending, None
        super().submit(work, *values)
        super().submit(first[0], *first[1])

    def record(self):
        if self.pending is not None:
            (work, values), self.pending = self.pending, None
            super().submit(work, *values)
        return super().record()

    def synchronize(self):
        self.record()
        super().synchronize()


@device("work is done in another order", "Queues")
class Swapped(Device):
    __slots__ = ()
    threaded = Swapping


class Silent(ThreadedQueue):
    def submit(self, work, *values):
        def run():
            with suppress(Exception):
                work(*values)

        super().submit(run)


@device("failures are kept quiet", "Queues")
class Quiet(Device):
    __slots__ = ()
    threaded = Silent


@device("a failure is told for ever", "Queues")
class Sulking(Device):
    __slots__ = ()

    def queue(self, threaded, threads=1):
        queue = super().queue(threaded, threads)
        if threaded:
            broken, synchronize = [], queue.synchronize

            def report():
                try:
                    synchronize()
                except Exception as error:
                    broken.append(error)
                if broken:
                    raise broken[0]

            queue.synchronize = report
        return queue


@device("slabs are not aligned", "Memory")
class Crooked(Device):
    __slots__ = ()

    def alloc_pool(self, size_bytes):
        slab = super().alloc_pool(size_bytes + 4)
        slab.bytes, slab.address = slab.bytes[4:], slab.address + 4
        return slab


@device("memory that was given back is still counted", "Memory")
class Hoarding(Device):
    __slots__ = ()

    def free_pool(self, pool):
        pass


@device("what is too large is somebody else's error", "Memory")
class Surprised(Device):
    __slots__ = ()

    def alloc_pool(self, size_bytes):
        try:
            return super().alloc_pool(size_bytes)
        except OutOfMemory:
            raise ValueError(size_bytes) from None


@device("small slabs share their memory", "Memory")
class Sharing(Device):
    __slots__ = ("known",)

    def alloc_pool(self, size_bytes):
        slab = super().alloc_pool(size_bytes)
        if size_bytes == 7:
            self.known = getattr(self, "known", None) or slab
            slab.bytes, slab.address = self.known.bytes, self.known.address
        return slab


@device("memory is wiped as soon as it is given back", "Memory")
class Wiping(Device):
    __slots__ = ()

    def free_pool(self, pool):
        super().free_pool(pool)
        pool.bytes.fill(0)


@lie("there is a new device every time", "Declaration")
class Many(Mutant):
    def device(self, ordinal):
        return CpuDevice(ordinal)


@lie("all devices are one", "Declaration")
class Alone(Mutant):
    def device(self, ordinal):
        return super().device(0)


@pytest.mark.parametrize(("defect", "area", "make"), LIES, ids=[defect for defect, _, _ in LIES])
def test_a_lie_is_seen(judge, defect, area, make):
    verdict = judge(area, make())
    assert verdict.failed, f"{area} does not see that {defect}: {verdict.passed} tests passed"


def test_no_lie_is_seen_where_there_is_none(judge):
    for area in sorted({area for _, area, _ in LIES}):
        verdict = judge(area, on(Device)())
        assert verdict.passed and not verdict.failed

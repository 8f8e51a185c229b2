"""Slabs of a device: allocation, deallocation, zeroing and copying."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from ocannl.backend.api import Device, Location, Pool, Queue
from ocannl.backend.cpu.device import CpuDevice
from ocannl.base.errors import OutOfMemory
from ocannl.ir.loops import AccessMode, Update, loop
from ocannl.ir.ops import ADD
from ocannl.ir.precision import PRECISIONS
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import Array, case, cell, load, pool, sym
from ocannl.testing.kit.harness import Bench, call

KINDS = pytest.mark.parametrize("threaded", [False, True], ids=["inline", "threaded"])


@contextmanager
def slabs(device: Device, *sizes: int) -> Iterator[list[Pool]]:
    pools = [device.alloc_pool(size) for size in sizes]
    try:
        yield pools
    finally:
        for inputs in pools:
            device.free_pool(inputs)


def read(queue: Queue, where: Location, size_bytes: int) -> Array:
    out = np.full(size_bytes, 0x5A, np.uint8)
    queue.to_host(where, out)
    queue.synchronize()
    return out


def noise(size: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def quietly(work: Callable[[], object]) -> Callable[[], None]:
    """Discards the result of work: a true result would mean cancellation."""

    def run() -> None:
        work()

    return run


class Memory(Area):
    """Devices allocate slabs; queues fill, copy and read them."""

    @KINDS
    @pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 65, 1000, 1 << 20])
    def test_bytes_come_back_as_they_went(self, bench: Bench, threaded: bool, size: int) -> None:
        queue, data = bench.device.queue(threaded), noise(size)
        with slabs(bench.device, size) as (slab,):
            queue.from_host(Location(slab, 0), data)
            assert np.array_equal(read(queue, Location(slab, 0), size), data)

    @KINDS
    @pytest.mark.parametrize("p", PRECISIONS, ids=str)
    def test_arrays_of_every_type_travel(self, bench: Bench, threaded: bool, p: object) -> None:
        queue, bits = bench.device.queue(threaded), noise(96)
        inputs = np.ascontiguousarray((bits & 1 if str(p) == "bool" else bits).view(getattr(p, "numpy", None)))
        inputs = inputs.reshape(2, -1)
        with slabs(bench.device, 256) as (slab,):
            queue.from_host(Location(slab, 64), inputs)
            out = np.zeros_like(inputs)
            queue.to_host(Location(slab, 64), out)
            queue.synchronize()
        assert np.array_equal(out.view(np.uint8), inputs.view(np.uint8))

    @KINDS
    @pytest.mark.parametrize(("offset", "size"), [(0, 16), (1, 1), (3, 5), (64, 64), (100, 156), (255, 1)])
    def test_zeroing_and_copying_keep_to_their_bytes(
        self, bench: Bench, threaded: bool, offset: int, size: int
    ) -> None:
        queue, before, second_device = bench.device.queue(threaded), noise(256), noise(256, 1)
        with slabs(bench.device, 256, 256) as (slab, source):
            queue.from_host(Location(source, 0), second_device)
            for put in ("zero", "from_host", "copy"):
                queue.from_host(Location(slab, 0), before)
                want = before.copy()
                if put == "zero":
                    queue.zero(Location(slab, offset), size)
                    want[offset : offset + size] = 0
                elif put == "from_host":
                    queue.from_host(Location(slab, offset), np.ascontiguousarray(second_device[:size]))
                    want[offset : offset + size] = second_device[:size]
                else:
                    queue.copy(Location(source, 256 - size), Location(slab, offset), size)
                    want[offset : offset + size] = second_device[256 - size :]
                assert np.array_equal(read(queue, Location(slab, 0), 256), want), put
            assert np.array_equal(read(queue, Location(source, 0), 256), second_device)

    @KINDS
    def test_no_bytes_at_all(self, bench: Bench, threaded: bool) -> None:
        queue, data = bench.device.queue(threaded), noise(64)
        with slabs(bench.device, 64, 0) as (slab, _):
            queue.from_host(Location(slab, 0), data)
            queue.zero(Location(slab, 64), 0)
            queue.copy(Location(slab, 0), Location(slab, 64), 0)
            queue.from_host(Location(slab, 32), np.zeros(0, np.uint8))
            queue.to_host(Location(slab, 32), np.zeros(0, np.uint8))
            assert np.array_equal(read(queue, Location(slab, 0), 64), data)

    def test_slabs_share_nothing(self, bench: Bench) -> None:
        queue, sizes = bench.queue, [1, 7, 64, 1000, 4096] * 4
        with slabs(bench.device, *sizes) as pools:
            for n, (slab, size) in enumerate(zip(pools, sizes, strict=True)):
                queue.from_host(Location(slab, 0), noise(size, n))
            for n, (slab, size) in enumerate(zip(pools, sizes, strict=True)):
                assert np.array_equal(read(queue, Location(slab, 0), size), noise(size, n)), n

    def test_slabs_are_aligned(self, bench: Bench) -> None:
        step = bench.backend.capabilities.alignment_bytes
        assert step > 0 and step & (step - 1) == 0, "`alignment_bytes` is a power of two"
        if not isinstance(bench.device, CpuDevice):
            pytest.skip("the addresses of this device are unknown")
        with slabs(bench.device, *[1, 3, 64, 100, 5000] * 8) as pools:
            offsets = [bench.device.address(Location(slab, 0)) % step for slab in pools]
        assert not any(offsets), f"`alignment_bytes` is {step}, and slabs are off by {offsets}"

    def test_memory_in_use_is_counted(self, bench: Bench) -> None:
        gc.collect()
        before = bench.device.bytes_in_use
        first, second = bench.device.alloc_pool(1000), bench.device.alloc_pool(24)
        assert bench.device.bytes_in_use >= before + 1024
        bench.device.free_pool(first)
        assert before + 24 <= bench.device.bytes_in_use < before + 1024
        bench.device.free_pool(second)
        assert bench.device.bytes_in_use == before

    def test_memory_is_given_back(self, bench: Bench) -> None:
        """Allocates 32 GB in total."""
        for n in range(1000):
            slab = bench.device.alloc_pool(32 << 20)
            if n % 100 == 0:
                bench.queue.zero(Location(slab, n), 4096)
            bench.device.free_pool(slab)
        bench.queue.synchronize()

    def test_too_much_memory_is_refused_in_words(self, bench: Bench) -> None:
        before = bench.device.bytes_in_use
        with pytest.raises(OutOfMemory):
            bench.device.alloc_pool(1 << 60)
        assert bench.device.bytes_in_use == before
        data = noise(100)
        with slabs(bench.device, 100) as (slab,):
            bench.queue.from_host(Location(slab, 0), data)
            assert np.array_equal(read(bench.queue, Location(slab, 0), 100), data)

    def test_devices_count_their_own_memory(self, bench: Bench) -> None:
        first_device, second_device = bench.two()
        before = first_device.bytes_in_use, second_device.bytes_in_use
        with slabs(second_device, 512):
            assert first_device.bytes_in_use == before[0]
            assert second_device.bytes_in_use >= before[1] + 512
        assert second_device.bytes_in_use == before[1]

    @KINDS
    def test_copies_between_devices(self, bench: Bench, threaded: bool) -> None:
        first_device, second_device = bench.two()
        if not second_device.reaches(first_device):
            pytest.skip("device 1 does not reach device 0")
        first_queue, second_queue, data = first_device.queue(threaded), second_device.queue(threaded), noise(300)
        with slabs(first_device, 300) as (source,), slabs(second_device, 300) as (target,):
            first_queue.from_host(Location(source, 0), data)
            second_queue.zero(Location(target, 0), 300)
            second_queue.wait(first_queue.record())
            second_queue.copy(Location(source, 50), Location(target, 10), 200)
            got = read(second_queue, Location(target, 0), 300)
        assert np.array_equal(got[10:210], data[50:250])
        assert not got[:10].any() and not got[210:].any()

    @KINDS
    def test_memory_may_be_freed_while_work_waits(self, bench: Bench, threaded: bool) -> None:
        """Work submitted before may still use it."""
        p, queue = bench.number, bench.device.queue(threaded)
        ones, none = np.ones(64, p.numpy), np.zeros(64, p.numpy)
        x, y, i = pool("x", ones, AccessMode.IN), pool("y", none), sym("i", 64)
        first_device = case("freed", [(x, ones), (y, none)], (loop(i, (Update(cell(y, i), ADD, load(x, i)),)),))
        code = bench.code(first_device.proc)
        with slabs(bench.device, ones.nbytes) as (total,):
            queue.zero(Location(total, 0), ones.nbytes)
            for _ in range(20):
                slab = bench.device.alloc_pool(ones.nbytes)
                queue.from_host(Location(slab, 0), ones)
                entry = bench.backend.link(code, "freed", queue, [Location(slab, 0), Location(total, 0)])
                queue.synchronize()
                queue.submit(quietly(partial(time.sleep, 0.003)))
                for _ in range(5):
                    call(queue, entry)
                bench.device.free_pool(slab)
                del entry, slab
            out = np.empty_like(none)
            queue.to_host(Location(total, 0), out)
            queue.synchronize()
        assert set(out.tolist()) == {100}

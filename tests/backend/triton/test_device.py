"""Devices, memory and queues on a simulated driver, which does all work as late as possible."""

import gc
import threading

import numpy as np
import pytest
from fake_cuda import Event, FakeCuda, Stream

from ocannl.backend import DeviceLost, Location, OutOfMemory
from ocannl_backend_triton.cuda_target import CudaTarget
from ocannl_backend_triton.device import devices
from ocannl_backend_triton.driver import open_driver
from ocannl_backend_triton.streams import StagingBuffers


@pytest.fixture
def fake():
    return FakeCuda(devices=2, total=1 << 24)


@pytest.fixture
def all_devices(fake):
    return devices(open_driver(fake.functions))


@pytest.fixture
def device(all_devices):
    return all_devices[0]


@pytest.fixture(params=[False, True], ids=["inline", "threaded"])
def queue(device, request):
    return device.queue(request.param)


def noise(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def read(queue, where, size):
    out = np.zeros(size, np.uint8)
    queue.to_host(where, out)
    queue.synchronize()
    return out


def test_device_properties(device):
    assert (device.ordinal, device.name, device.memory_bytes) == (0, "Fake GPU", 1 << 24)
    assert device.target == CudaTarget(90, 227 * 1024, 132)
    assert str(device.target) == "sm_90"


@pytest.mark.parametrize("size", [0, 1, 4096, StagingBuffers.BUFFER_BYTES, 2 * StagingBuffers.BUFFER_BYTES + 3])
def test_transfers_through_staging_buffers(queue, size, monkeypatch):
    slab, data = queue.device.alloc_pool(size + 8), noise(size)
    source = data.copy()
    queue.from_host(Location(slab, 8), source)
    queue.synchronize()
    source[:] = 0
    assert np.array_equal(read(queue, Location(slab, 8), size), data)


def test_staging_buffers_are_not_overwritten_in_flight(queue, monkeypatch):
    monkeypatch.setattr(StagingBuffers, "BUFFER_BYTES", 64)
    slab, parts = queue.device.alloc_pool(4096), [noise(4096 // 8, n) for n in range(8)]
    for n, part in enumerate(parts):
        queue.from_host(Location(slab, 512 * n), part)
    assert np.array_equal(read(queue, Location(slab, 0), 4096), np.concatenate(parts))


def test_zeros_and_copies(queue, all_devices):
    first, second = (queue.device.alloc_pool(64) for _ in range(2))
    remote = all_devices[1].alloc_pool(64)
    queue.from_host(Location(first, 0), noise(64))
    queue.zero(Location(second, 0), 64)
    queue.copy(Location(first, 10), Location(second, 20), 5)
    assert read(queue, Location(second, 0), 64)[18:27].tolist() == [0, 0, *noise(64)[10:15], 0, 0]
    remote_queue = all_devices[1].queue(False)
    remote_queue.wait(queue.record())
    remote_queue.copy(Location(second, 16), Location(remote, 0), 16)
    assert read(remote_queue, Location(remote, 0), 16)[4:9].tolist() == noise(64)[10:15].tolist()
    assert all_devices[1].reaches(all_devices[0])


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (60, 5), (64, 1), (0, 65)])
def test_accesses_outside_a_slab_raise(device, offset, size):
    queue, slab = device.queue(False), device.alloc_pool(64)
    for act in (
        lambda where: queue.from_host(where, np.zeros(size, np.uint8)),
        lambda where: queue.to_host(where, np.zeros(size, np.uint8)),
        lambda where: queue.zero(where, size),
    ):
        with pytest.raises(IndexError, match="of a slab of 64"):
            act(Location(slab, offset))


def test_memory_is_freed_after_submitted_work(device, fake):
    queue, slab = device.queue(False), device.alloc_pool(1000)
    queue.from_host(Location(slab, 0), noise(1000))
    out = device.alloc_pool(1000)
    queue.copy(Location(slab, 0), Location(out, 0), 1000)
    device.free_pool(slab)
    assert device.bytes_in_use == 1000
    device.alloc_pool(8)
    assert slab.address in fake.memory, "the copy has not been made yet"
    assert np.array_equal(read(queue, Location(out, 0), 1000), noise(1000))
    device.drain()
    assert slab.address not in fake.memory


def test_all_memory_can_be_reused(device, fake):
    queue = device.queue(False)
    for n in range(50):
        slab = device.alloc_pool(1 << 23)
        queue.zero(Location(slab, 0), 1 << 10 + n % 3)
        device.free_pool(slab)
    with pytest.raises(OutOfMemory, match=r"no 16777217 bytes to give on Fake GPU; 0 of 16777216 are in use"):
        device.alloc_pool((1 << 24) + 1)


def test_memory_used_outside_this_process(device, fake):
    fake.devices[0].used = 1 << 23
    message = "other programs may use some: cuMemAllocFromPoolAsync returned CUDA_ERROR_OUT"
    with pytest.raises(OutOfMemory, match=message):
        device.alloc_pool((1 << 23) + 1)
    assert device.bytes_in_use == 0
    fake.devices[0].used = 0
    assert np.array_equal(read(device.queue(False), Location(device.alloc_pool(8), 0), 8), np.full(8, 0xA5))


def test_a_broken_queue_does_not_delay_deallocation(device, fake):
    queue, slab = device.queue(True), device.alloc_pool(100)
    go = threading.Event()
    queue.submit(lambda: go.wait() and None)
    queue.submit(lambda: 1 / 0)
    device.free_pool(slab)
    device.alloc_pool(1)
    go.set()
    device.drain()
    assert slab.address not in fake.memory
    with pytest.raises(ZeroDivisionError):
        queue.synchronize()


def test_queues_wait_for_events(all_devices):
    for ordinal, threaded, to_thread in [(n, a, b) for n in (0, 1) for a in (False, True) for b in (False, True)]:
        first, second = all_devices[0].queue(threaded), all_devices[ordinal].queue(to_thread)
        source, target = all_devices[0].alloc_pool(1 << 16), all_devices[ordinal].alloc_pool(1 << 16)
        first.from_host(Location(source, 0), noise(1 << 16))
        second.wait(first.record())
        second.copy(Location(source, 0), Location(target, 0), 1 << 16)
        assert np.array_equal(read(second, Location(target, 0), 1 << 16), noise(1 << 16))


def test_events(device):
    queue, slab = device.queue(False), device.alloc_pool(64)
    queue.zero(Location(slab, 0), 64)
    event = queue.record()
    assert not event.is_done()
    event.synchronize()
    assert event.is_done()


def test_resources_are_freed(device, fake):
    before = fake.count_alive(Stream)
    for threaded in (False, True) * 3:
        queue = device.queue(threaded)
        slab = device.alloc_pool(64)
        queue.zero(Location(slab, 0), 64)
        queue.synchronize()
        device.free_pool(slab)
        del queue
    gc.collect()
    device.drain()
    gc.collect()
    assert (fake.count_alive(Stream) - before, fake.count_alive(Event)) == (1, 0)  # the one in which memory is taken
    assert not [m for m in fake.memory.values() if m[1] in fake.devices] and fake.devices[0].used == 0


def test_a_lost_device_raises_and_releases_nothing(device, fake):
    queue, slab = device.queue(True), device.alloc_pool(64)
    queue.zero(Location(slab, 0), 64)
    fake.sticky = 700
    with pytest.raises(DeviceLost, match="ILLEGAL_ADDRESS"):
        queue.synchronize()
    for act in (lambda: device.alloc_pool(8), lambda: device.queue(False), lambda: device.queue(True)):
        with pytest.raises(DeviceLost, match="can no longer be used by this process"):
            act()
    device.free_pool(slab)
    before = len(fake.calls)
    device.reclaim()
    del queue
    gc.collect()
    assert len(fake.calls) == before

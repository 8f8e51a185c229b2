"""Devices, slabs and queues, on a driver that does everything as late as it can."""

import gc
import threading

import numpy as np
import pytest
from fake_cuda import Event, FakeCuda, Stream

from ocannl.backend import DeviceLost, Location, OutOfMemory
from ocannl_backend_triton.device import devices
from ocannl_backend_triton.driver import opened
from ocannl_backend_triton.streams import Staging
from ocannl_backend_triton.target import Target


@pytest.fixture
def fake():
    return FakeCuda(devices=2, total=1 << 24)


@pytest.fixture
def all_devices(fake):
    return devices(opened(fake.functions))


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


def test_a_device_says_what_it_is(device):
    assert (device.ordinal, device.name, device.memory_bytes) == (0, "Fake GPU", 1 << 24)
    assert device.target == Target(90, 227 * 1024, 132)
    assert str(device.target) == "sm_90"


@pytest.mark.parametrize("size", [0, 1, 4096, Staging.PIECE_BYTES, 2 * Staging.PIECE_BYTES + 3])
def test_bytes_come_back_through_pieces_of_pinned_memory(queue, size, monkeypatch):
    slab, data = queue.device.alloc_pool(size + 8), noise(size)
    given = data.copy()
    queue.from_host(Location(slab, 8), given)
    queue.synchronize()
    given[:] = 0
    assert np.array_equal(read(queue, Location(slab, 8), size), data)


def test_pieces_are_not_filled_again_before_they_have_travelled(queue, monkeypatch):
    monkeypatch.setattr(Staging, "PIECE_BYTES", 64)
    slab, parts = queue.device.alloc_pool(4096), [noise(4096 // 8, n) for n in range(8)]
    for n, part in enumerate(parts):
        queue.from_host(Location(slab, 512 * n), part)
    assert np.array_equal(read(queue, Location(slab, 0), 4096), np.concatenate(parts))


def test_zeros_and_copies(queue, all_devices):
    one, two = (queue.device.alloc_pool(64) for _ in range(2))
    far = all_devices[1].alloc_pool(64)
    queue.from_host(Location(one, 0), noise(64))
    queue.zero(Location(two, 0), 64)
    queue.copy(Location(one, 10), Location(two, 20), 5)
    assert read(queue, Location(two, 0), 64)[18:27].tolist() == [0, 0, *noise(64)[10:15], 0, 0]
    there = all_devices[1].queue(False)
    there.wait(queue.record())
    there.copy(Location(two, 16), Location(far, 0), 16)
    assert read(there, Location(far, 0), 16)[4:9].tolist() == noise(64)[10:15].tolist()
    assert all_devices[1].reaches(all_devices[0])


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (60, 5), (64, 1), (0, 65)])
def test_nothing_reaches_outside_a_slab(device, offset, size):
    queue, slab = device.queue(False), device.alloc_pool(64)
    for act in (
        lambda where: queue.from_host(where, np.zeros(size, np.uint8)),
        lambda where: queue.to_host(where, np.zeros(size, np.uint8)),
        lambda where: queue.zero(where, size),
    ):
        with pytest.raises(IndexError, match="of a slab of 64"):
            act(Location(slab, offset))


def test_memory_is_freed_when_what_was_submitted_is_done(device, fake):
    queue, slab = device.queue(False), device.alloc_pool(1000)
    queue.from_host(Location(slab, 0), noise(1000))
    out = device.alloc_pool(1000)
    queue.copy(Location(slab, 0), Location(out, 0), 1000)
    device.free_pool(slab)
    assert device.bytes_in_use == 1000
    device.alloc_pool(8)
    assert slab.address in fake.memory, "the copy has not been made yet"
    assert np.array_equal(read(queue, Location(out, 0), 1000), noise(1000))
    device.clear()
    assert slab.address not in fake.memory


def test_all_memory_can_be_given_out_again_and_again(device, fake):
    queue = device.queue(False)
    for n in range(50):
        slab = device.alloc_pool(1 << 23)
        queue.zero(Location(slab, 0), 1 << 10 + n % 3)
        device.free_pool(slab)
    with pytest.raises(OutOfMemory, match=r"no 16777217 bytes to give on Fake GPU; 0 of 16777216 are in use"):
        device.alloc_pool((1 << 24) + 1)


def test_memory_that_others_have_is_not_there(device, fake):
    fake.devices[0].used = 1 << 23
    with pytest.raises(OutOfMemory, match="other programs may use some: cuMemAllocFromPoolAsync says CUDA_ERROR_OUT"):
        device.alloc_pool((1 << 23) + 1)
    assert device.bytes_in_use == 0
    fake.devices[0].used = 0
    assert np.array_equal(read(device.queue(False), Location(device.alloc_pool(8), 0), 8), np.full(8, 0xA5))


def test_a_broken_queue_holds_no_memory_up(device, fake):
    queue, slab = device.queue(True), device.alloc_pool(100)
    go = threading.Event()
    queue.submit(lambda: go.wait() and None)
    queue.submit(lambda: 1 / 0)
    device.free_pool(slab)
    device.alloc_pool(1)
    go.set()
    device.clear()
    assert slab.address not in fake.memory
    with pytest.raises(ZeroDivisionError):
        queue.synchronize()


def test_a_queue_waits_for_another(all_devices):
    for other, threaded, to_thread in [(n, a, b) for n in (0, 1) for a in (False, True) for b in (False, True)]:
        first, second = all_devices[0].queue(threaded), all_devices[other].queue(to_thread)
        one, two = all_devices[0].alloc_pool(1 << 16), all_devices[other].alloc_pool(1 << 16)
        first.from_host(Location(one, 0), noise(1 << 16))
        second.wait(first.record())
        second.copy(Location(one, 0), Location(two, 0), 1 << 16)
        assert np.array_equal(read(second, Location(two, 0), 1 << 16), noise(1 << 16))


def test_events_tell_the_truth(device):
    queue, slab = device.queue(False), device.alloc_pool(64)
    queue.zero(Location(slab, 0), 64)
    event = queue.record()
    assert not event.is_done()
    event.synchronize()
    assert event.is_done()


def test_nothing_is_left_behind(device, fake):
    before = fake.alive(Stream)
    for threaded in (False, True) * 3:
        queue = device.queue(threaded)
        slab = device.alloc_pool(64)
        queue.zero(Location(slab, 0), 64)
        queue.synchronize()
        device.free_pool(slab)
        del queue
    gc.collect()
    device.clear()
    gc.collect()
    assert (fake.alive(Stream) - before, fake.alive(Event)) == (1, 0)  # the one in which memory is taken
    assert not [m for m in fake.memory.values() if m[1] in fake.devices] and fake.devices[0].used == 0


def test_a_lost_device_is_told_and_leaves_nobody_hanging(device, fake):
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
    device.sweep()
    del queue
    gc.collect()
    assert len(fake.calls) == before

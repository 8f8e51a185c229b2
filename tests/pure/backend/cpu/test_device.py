"""The processor as a device."""

import threading

import ml_dtypes
import numpy as np
import pytest

from ocannl.backend import Location, OutOfMemory, ZeroedPool
from ocannl.backend.cpu import device as device_module
from ocannl.backend.cpu.device import CpuDevice, memory_bytes
from ocannl.backend.cpu.host_slab import ALIGNMENT_BYTES, MIN_ZEROED_BYTES


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000, 1 << 20])
def test_slabs_are_aligned_and_counted(size):
    device = CpuDevice(3)
    slabs = [device.alloc_pool(size) for _ in range(3)]
    assert device.ordinal == 3
    assert device.bytes_in_use == 3 * size
    for slab in slabs:
        assert slab.address % ALIGNMENT_BYTES == 0
        assert slab.bytes.nbytes == size
        assert device.address(Location(slab, 8)) == slab.address + 8
        device.free_pool(slab)
    assert device.bytes_in_use == 0


@pytest.mark.parametrize("size", [1 << 50, 1 << 62, 1 << 70])
def test_allocation_beyond_memory_raises(size):
    device = CpuDevice()
    with pytest.raises(OutOfMemory, match=f"no {size} bytes of memory to give; 0 of {memory_bytes()} are in use"):
        device.alloc_pool(size)
    assert device.bytes_in_use == 0


def test_total_allocation_is_limited(monkeypatch):
    monkeypatch.setattr("ocannl.backend.cpu.device.memory_bytes", lambda: 1000)
    device = CpuDevice()
    slab = device.alloc_pool(900)
    with pytest.raises(OutOfMemory, match="no 101 bytes of memory to give; 900 of 1000 are in use"):
        device.alloc_pool(101)
    device.free_pool(slab)
    device.alloc_pool(1000)


def test_memory_error_becomes_out_of_memory(monkeypatch):
    def empty(*_):
        raise MemoryError

    monkeypatch.setattr("ocannl.backend.cpu.device.np.empty", empty)
    with pytest.raises(OutOfMemory):
        CpuDevice().alloc_pool(8)


@pytest.fixture(params=["inline", "threaded"])
def queue(request):
    return CpuDevice().queue(threaded=request.param == "threaded")


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2, 3, 4)])
def test_round_trip_of_arrays(queue, dtype, shape):
    where = Location(queue.device.alloc_pool(512), 64)
    data = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    data.flags.writeable = False
    queue.from_host(where, data)
    out = np.empty(shape, dtype)
    queue.to_host(where, out)
    queue.synchronize()
    np.testing.assert_array_equal(out, data)


def test_copies_and_zeros_on_the_device(queue):
    first, second = queue.device.alloc_pool(64), queue.device.alloc_pool(64)
    queue.from_host(Location(first, 0), np.arange(64, dtype=np.uint8))
    queue.zero(Location(second, 0), 64)
    queue.copy(Location(first, 10), Location(second, 20), 5)
    out = np.empty(64, np.uint8)
    queue.to_host(Location(second, 0), out)
    queue.synchronize()
    np.testing.assert_array_equal(out[18:27], [0, 0, 10, 11, 12, 13, 14, 0, 0])
    queue.copy(Location(first, 0), Location(first, 1), 10)  # as if there were another buffer between
    queue.to_host(Location(first, 0), out)
    queue.synchronize()
    np.testing.assert_array_equal(out[:12], [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11])


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (60, 5), (64, 1), (0, 65)])
def test_out_of_bounds_access_raises(queue, offset, size):
    slab = queue.device.alloc_pool(64)
    for act in (
        lambda where: queue.from_host(where, np.zeros(size, np.uint8)),
        lambda where: queue.to_host(where, np.zeros(size, np.uint8)),
        lambda where: queue.zero(where, size),
        lambda where: queue.copy(where, Location(queue.device.alloc_pool(size), 0), size),
    ):
        with pytest.raises(IndexError, match="of a slab of 64"):
            act(Location(slab, offset))


def test_non_contiguous_arrays_raise(queue):
    where = Location(queue.device.alloc_pool(64), 0)
    with pytest.raises(ValueError, match="must be contiguous"):
        queue.to_host(where, np.zeros((4, 4), np.float32).T[:, :2])


def test_accounting_is_thread_safe():
    device = CpuDevice()

    def work():
        for _ in range(200):
            device.free_pool(device.alloc_pool(8))
            device.alloc_pool(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.bytes_in_use == 800


@pytest.mark.parametrize(("size_bytes", "alignment_bytes"), [(1 << 19, 64), (1 << 20, 1 << 21), (5 << 20, 1 << 21)])
def test_large_slabs_begin_at_a_huge_page(size_bytes, alignment_bytes):
    slab = CpuDevice().alloc_pool(size_bytes)
    assert slab.bytes.nbytes == size_bytes and slab.bytes.ctypes.data == slab.address
    assert slab.address % alignment_bytes == 0
    slab.bytes[-1] = 1


def test_the_garbage_collector_may_free_a_slab_during_an_allocation(monkeypatch):
    device = CpuDevice()
    first, aligned = device.alloc_pool(900), device_module.aligned_slab

    def collecting(size):
        device.free_pool(first)
        return aligned(size)

    monkeypatch.setattr(device_module, "aligned_slab", collecting)
    device.alloc_pool(50)
    assert device.bytes_in_use == 50


def test_large_slabs_are_zeroed():
    """Smaller ones may reuse memory."""
    large, small = (CpuDevice().alloc_pool(size) for size in (MIN_ZEROED_BYTES, MIN_ZEROED_BYTES - 1))
    assert isinstance(large, ZeroedPool) and large.is_zeroed and not small.is_zeroed
    assert large.address % (1 << 21) == 0 and not large.bytes[:: 1 << 12].any()

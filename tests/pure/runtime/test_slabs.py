import gc

from hypothesis import given
from hypothesis import strategies as st

from ocannl.backend.cpu.device import CpuDevice
from ocannl.runtime.device_arrays import Arrays
from ocannl.runtime.slabs import Slab, pack


@given(st.lists(st.integers(0, 300)), st.sampled_from([1, 16, 64]))
def test_pack_is_aligned_and_disjoint(sizes, alignment):
    offsets, total = pack(sizes, alignment)
    assert all(offset % alignment == 0 for offset in offsets)
    assert all(a + size <= b for a, size, b in zip(offsets, sizes, [*offsets[1:], total], strict=False))
    assert total < sum(sizes) + alignment * len(sizes) + 1


def test_slab_is_freed_with_its_last_reference():
    device = CpuDevice()
    slab = Slab(device, 100)
    assert device.bytes_in_use == 100
    del slab
    gc.collect()
    assert device.bytes_in_use == 0


def test_release_is_idempotent():
    device = CpuDevice()
    slab = Slab(device, 100)
    slab.release()
    slab.release()
    del slab
    assert device.bytes_in_use == 0


def test_memory_of_collected_nodes_is_freed(build):
    device = CpuDevice()
    arrays = Arrays(device.queue(threaded=False), 64)
    x, y = build.node("x", 16), build.node("y", 16)
    arrays.allocate([x, y])
    assert device.bytes_in_use == 128
    assert {arrays[x].where.offset_bytes, arrays[y].where.offset_bytes} == {0, 64}
    arrays.allocate([y, x])
    assert device.bytes_in_use == 128
    del x
    gc.collect()
    assert device.bytes_in_use == 128  # y is in the same slab
    del y
    gc.collect()
    assert device.bytes_in_use == 0


def test_an_arena_grows_and_is_shared():
    device = CpuDevice()
    arrays = Arrays(device.queue(threaded=False), 64)
    small = arrays.arena(100)
    assert arrays.arena(50) is small
    large = arrays.arena(200)
    assert large is not small and arrays.arena(150) is large
    assert device.bytes_in_use == 300
    del small
    assert device.bytes_in_use == 200
    arrays.release()
    assert device.bytes_in_use == 0


def test_epoch_changes_with_validity(build):
    arrays = Arrays(CpuDevice().queue(threaded=False), 64)
    x = build.node("x", 2)
    arrays.mark(x, True)  # it has no array: nothing happens
    assert arrays.lock.epoch == 0 and not arrays.holds(x)
    arrays.allocate([x])
    arrays.mark(x, True)
    assert arrays.lock.epoch == 1 and arrays.holds(x)
    arrays.mark(x, True)
    assert arrays.lock.epoch == 1
    arrays.mark(x, False)
    assert arrays.lock.epoch == 2 and not arrays.holds(x) and arrays.was_written(x)

"""Zero-copy exchange of arrays with other libraries."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import FakeCuda

from ocannl.backend import Location
from ocannl.base.errors import DataError
from ocannl_backend_triton import dlpack
from ocannl_backend_triton.device import devices
from ocannl_backend_triton.dlpack import ExportedArray, import_array
from ocannl_backend_triton.driver import open_driver

KINDS = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.uint32, np.bool_]


def exported(array, **fields):
    address = array.ctypes.data
    return ExportedArray(address, 0, array.shape, array.dtype, array, lambda stream: None, **fields)


class DeviceArray:
    """A NumPy array that claims to be on a GPU."""

    def __init__(self, array, device=(2, 0)):
        self.array, self.device, self.streams = array, device, []

    def __dlpack_device__(self): return self.device

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return exported(self.array).__dlpack__(stream=-1)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (0, 3)])
def test_numpy_imports_exported_arrays(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    seen = np.from_dlpack(exported(array, device_type=1))
    assert seen.dtype == dtype and np.array_equal(seen, array)
    if array.size:
        assert np.shares_memory(seen, array)
    before = len(dlpack._exported)
    del seen
    assert len(dlpack._exported) == before - 1


def test_unused_capsules_are_freed():
    before = len(dlpack._exported)
    capsule = exported(np.zeros(3)).__dlpack__(stream=-1)
    assert len(dlpack._exported) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._exported) == before


@pytest.mark.parametrize("dtype", [*KINDS, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn])
def test_all_types_round_trip(dtype):
    array = np.zeros((2, 3), dtype)
    before = len(dlpack._exported)
    imported = import_array(exported(array), -1)
    assert (imported.dims, imported.dtype, imported.device) == ((2, 3), np.dtype(dtype), (2, 0))
    assert imported.address == array.ctypes.data
    imported.release()
    assert len(dlpack._exported) == before


class NumpyArray:
    def __init__(self, array): self.array = array

    def __dlpack__(self, *, stream): return self.array.__dlpack__()


def test_numpy_capsules_are_imported():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    imported = import_array(NumpyArray(array), 7)
    assert (imported.dims, imported.dtype, imported.device) == ((2, 3), np.int32, (1, 0))
    assert imported.address == array.ctypes.data
    imported.release()
    for invalid, message in ((array.T, "not contiguous"), (array.astype(np.complex64), "unsupported type, 5/64 bits")):
        with pytest.raises(DataError, match=message):
            import_array(NumpyArray(invalid), 7)


@pytest.fixture
def fake():
    return FakeCuda()


@pytest.fixture(params=[False, True], ids=["inline", "threaded"])
def queue(fake, request):
    return devices(open_driver(fake.functions))[0].queue(request.param)


def test_consumers_are_ordered_after_producers(fake, queue):
    slab = queue.device.alloc_pool(64)
    queue.from_host(Location(slab, 0), np.arange(8.0))
    fields = queue.to_dlpack(Location(slab, 16), (2, 2), np.dtype(np.float64), "holds")
    assert fields.__dlpack_device__() == (2, 0)
    with queue.device.current() as driver:
        consumer = driver.get_handle("cuStreamCreate", 1)
        capsule = fields.__dlpack__(stream=consumer.value, max_version=(1, 0), copy=None)
        driver("cuStreamSynchronize", consumer)
    imported = import_array(type("Again", (), {"__dlpack__": lambda self, stream: capsule})(), -1)
    memory = np.ctypeslib.as_array((ctypes.c_double * 4).from_address(imported.address))
    assert memory.tolist() == [2, 3, 4, 5]
    imported.release()


def test_imported_arrays_are_released_after_their_copy(fake, queue):
    array, slab = np.arange(10, dtype=np.float32), queue.device.alloc_pool(64)
    fake.memory[array.ctypes.data] = array, fake.devices[0], array.nbytes
    before = len(dlpack._exported)
    guest = DeviceArray(array)
    where, dims, dtype = queue.from_dlpack(guest)
    assert (dims, dtype, guest.streams) == ((10,), np.float32, [queue.stream.value])
    queue.copy(where, Location(slab, 8), 40)
    del where
    gc.collect()
    queue.device.reclaim()
    if queue.immediate:
        assert len(dlpack._exported) == before + 1, "the copy has not been made yet"
    out = np.zeros(10, np.float32)
    queue.to_host(Location(slab, 8), out)
    queue.synchronize()
    gc.collect()
    queue.device.drain()
    assert np.array_equal(out, array) and len(dlpack._exported) == before
    for foreign in (array, 3, DeviceArray(array, (1, 0))):
        assert queue.from_dlpack(foreign) is None

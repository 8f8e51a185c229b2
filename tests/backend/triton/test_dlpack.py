"""Arrays that go to other libraries and come from them, without being copied on the way."""

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
from ocannl_backend_triton.dlpack import Lent, borrow
from ocannl_backend_triton.driver import opened

KINDS = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.uint32, np.bool_]


def lent(array, **given):
    address = array.ctypes.data
    return Lent(address, 0, array.shape, array.dtype, array, lambda stream: None, **given)


class Elsewhere:
    """An array of NumPy's that says that it lies on a GPU."""

    def __init__(self, array, place=(2, 0)):
        self.array, self.place, self.streams = array, place, []

    def __dlpack_device__(self): return self.place

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return lent(self.array).__dlpack__(stream=-1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (0, 3)])
def test_numpy_takes_what_is_lent(kind, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    seen = np.from_dlpack(lent(array, device_type=1))
    assert seen.dtype == kind and np.array_equal(seen, array)
    if array.size:
        assert np.shares_memory(seen, array)
    before = len(dlpack._lent)
    del seen
    gc.collect()
    assert len(dlpack._lent) == before - 1


def test_what_nobody_took_is_let_go():
    before = len(dlpack._lent)
    capsule = lent(np.zeros(3)).__dlpack__(stream=-1)
    assert len(dlpack._lent) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._lent) == before


@pytest.mark.parametrize("kind", [*KINDS, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn])
def test_every_type_comes_back(kind):
    array = np.zeros((2, 3), kind)
    before = len(dlpack._lent)
    taken = borrow(lent(array), -1)
    assert (taken.dims, taken.kind, taken.address, taken.device) == ((2, 3), np.dtype(kind), array.ctypes.data, (2, 0))
    taken.done()
    assert len(dlpack._lent) == before


class OfNumpy:
    def __init__(self, array): self.array = array

    def __dlpack__(self, *, stream): return self.array.__dlpack__()


def test_numpy_s_own_capsules_are_read():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    taken = borrow(OfNumpy(array), 7)
    assert (taken.dims, taken.kind, taken.address, taken.device) == ((2, 3), np.int32, array.ctypes.data, (1, 0))
    taken.done()
    for odd, words in ((array.T, "not contiguous"), (array.astype(np.complex64), "unknown here, 5/64 bits")):
        with pytest.raises(DataError, match=words):
            borrow(OfNumpy(odd), 7)


@pytest.fixture
def fake():
    return FakeCuda()


@pytest.fixture(params=[False, True], ids=["inline", "threaded"])
def queue(fake, request):
    return devices(opened(fake.functions))[0].queue(request.param)


def test_who_takes_an_array_comes_after_what_gives_it_its_value(fake, queue):
    slab = queue.device.alloc_pool(64)
    queue.from_host(Location(slab, 0), np.arange(8.0))
    given = queue.lend(Location(slab, 16), (2, 2), np.dtype(np.float64), "holds")
    assert given.__dlpack_device__() == (2, 0)
    with queue.device.current() as driver:
        other = driver.handle("cuStreamCreate", 1)
        capsule = given.__dlpack__(stream=other.value, max_version=(1, 0), copy=None)
        driver("cuStreamSynchronize", other)
    taken = borrow(type("Again", (), {"__dlpack__": lambda self, stream: capsule})(), -1)
    memory = np.ctypeslib.as_array((ctypes.c_double * 4).from_address(taken.address))
    assert memory.tolist() == [2, 3, 4, 5]
    taken.done()


def test_a_guest_is_copied_and_let_go_when_that_is_done(fake, queue):
    array, slab = np.arange(10, dtype=np.float32), queue.device.alloc_pool(64)
    fake.memory[array.ctypes.data] = array, fake.devices[0], array.nbytes
    before = len(dlpack._lent)
    guest = Elsewhere(array)
    where, dims, kind = queue.borrow(guest)
    assert (dims, kind, guest.streams) == ((10,), np.float32, [queue.stream.value])
    queue.copy(where, Location(slab, 8), 40)
    del where
    gc.collect()
    queue.device.sweep()
    if queue.immediate:
        assert len(dlpack._lent) == before + 1, "the copy has not been made yet"
    out = np.zeros(10, np.float32)
    queue.to_host(Location(slab, 8), out)
    queue.synchronize()
    gc.collect()
    queue.device.clear()
    assert np.array_equal(out, array) and len(dlpack._lent) == before
    assert queue.borrow(array) is None and queue.borrow(3) is None and queue.borrow(Elsewhere(array, (1, 0))) is None

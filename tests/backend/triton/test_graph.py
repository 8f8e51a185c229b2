"""Programs as graphs, on a driver that runs kernels in any order that the graph allows."""

import ctypes
import gc
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fake_cuda import FakeCuda, Function

from ocannl.backend import CompileError, DeviceLost, Location
from ocannl_backend_triton.device import devices
from ocannl_backend_triton.driver import opened
from ocannl_backend_triton.graph import Launch, put
from ocannl_backend_triton.kernel import SCRATCH, STATICS, Argument, Kernel, Module
from ocannl_backend_triton.package import Binary

CELLS = 8


def cells(address, count=CELLS):
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))


def put_body(grid, address, *values):
    cells(address, len(values))[:] = np.array(values, np.uint64).view(np.int64)


def add(grid, to, one, other): cells(to)[:] = cells(one) + cells(other)


def double(grid, to): cells(to)[:] *= 2


def increase(grid, to, by): cells(to)[:] += cells(by, 2)[1]


BODIES = {"add": (add, 3), "double": (double, 1), "increase": (increase, 2)}


def argument(name, region, reads=True, writes=False, offset=0):
    return Argument(name, "i64", region, offset, 8 * CELLS, reads, writes)


def kernel(name, *arguments, grid=(1, 1, 1)):
    return Kernel(name, name, arguments, grid)


def module(*kernels, regions=3, **given):
    return Module("program", "text", kernels, tuple((f"r{n}", 8 * CELLS) for n in range(regions)), **given)


@pytest.fixture(params=range(5))
def fake(request):
    fake = FakeCuda(seed=request.param)
    for name, (body, count) in BODIES.items():
        fake.kernels[name.encode()] = body, count
    for symbols in range(1, 4):
        fake.kernels[put(symbols).image[:-1]] = put_body, 1 + symbols
    return fake


@pytest.fixture
def device(fake):
    return devices(opened(fake.functions))[0]


@pytest.fixture(params=[False, True], ids=["inline", "threaded"])
def queue(device, request):
    return device.queue(request.param)


def binary(name, shared=0, scratch=()):
    return Binary(name, name.encode(), 128, shared, scratch)


def linked(program, queue, locations, **given):
    return Launch(program, [binary(k.name, **given) for k in program.kernels], queue, locations)


def placed(queue, *arrays):
    slabs = [queue.device.alloc_pool(8 * CELLS) for _ in arrays]
    for slab, array in zip(slabs, arrays, strict=True):
        queue.from_host(Location(slab, 0), np.asarray(array, np.int64))
    return [Location(slab, 0) for slab in slabs]


def call(queue, entry, *values):
    if queue.immediate:
        assert not entry(*values)
    else:
        queue.submit(entry, *values)


def read(queue, where):
    out = np.zeros(CELLS, np.int64)
    queue.to_host(where, out)
    queue.synchronize()
    return out


def test_kernels_run_in_the_order_of_what_they_share(queue):
    n = np.arange(CELLS)
    program = module(
        kernel("double", argument("b", 1, writes=True)),
        kernel("add", argument("a", 0, False, True), argument("b", 1), argument("c", 2)),
        kernel("double", argument("c", 2, writes=True)),
        kernel("double", argument("a", 0, writes=True)),
        kernel("double", argument("b", 1, writes=True)),
    )
    assert program.edges == ((0, 1), (1, 2), (1, 3), (1, 4))
    places = placed(queue, 0 * n, n, 10 + n)
    entry = linked(program, queue, places)
    for times in range(1, 3):
        call(queue, entry)
        b, c = 4 ** (times - 1) * n, 2 ** (times - 1) * (10 + n)
        want = 2 * (2 * b + c), 4 * b, 2 * c
        for place, wanted in zip(places, want, strict=True):
            assert np.array_equal(read(queue, place), wanted)


def test_a_routine_is_one_launch(fake, device):
    queue = device.queue(False)
    program = module(*[kernel("double", argument("a", n, writes=True)) for n in range(3)])
    entry = linked(program, queue, placed(queue, *np.ones((3, CELLS))))
    before = len(fake.calls)
    entry()
    assert fake.calls[before:] == ["cuCtxPushCurrent_v2", "cuGraphLaunch", "cuCtxPopCurrent_v2"]


def test_each_launch_has_its_own_symbols(queue):
    statics = Argument("statics", "i64", STATICS, 0, 16, True, False)
    program = module(kernel("increase", argument("a", 0, True, True), statics), regions=1, symbols=2)
    (place,) = places = placed(queue, np.zeros(CELLS))
    entry = linked(program, queue, places)
    for value in (1, 10, -3, 2**40, -(2**40)):  # none of them has been done yet when the next is submitted
        call(queue, entry, 99, value)
    assert read(queue, place).tolist() == [8] * CELLS


def test_scratch_memory_is_the_program_s_own(queue):
    program = module(
        kernel("add", argument("s", SCRATCH, False, True), argument("a", 0), argument("a", 0)),
        kernel("add", argument("a", 0, False, True), argument("s", SCRATCH), argument("s", SCRATCH)),
        regions=1, scratch_bytes=8 * CELLS,
    )  # fmt: skip
    (place,) = places = placed(queue, np.ones(CELLS))
    call(queue, linked(program, queue, places))
    assert read(queue, place).tolist() == [4] * CELLS


def test_parts_of_a_region_are_where_they_should_be(queue):
    half = 8 * CELLS
    only = kernel("double", argument("a", 0, writes=True, offset=half))
    program = Module("program", "", (only,), (("arena", 2 * half),))
    slab = queue.device.alloc_pool(3 * half)
    queue.from_host(Location(slab, half), np.arange(2 * CELLS))
    call(queue, linked(program, queue, [Location(slab, half)]))
    assert read(queue, Location(slab, half)).tolist() == list(range(CELLS))
    assert read(queue, Location(slab, 2 * half)).tolist() == list(range(2 * CELLS, 4 * CELLS, 2))


def test_what_a_version_of_triton_adds_is_given(fake, device):
    seen = []

    def body(grid, to, scratch, profile):
        seen.append((scratch, profile))
        cells(scratch, 4)[:] = 1

    fake.kernels[b"odd"] = body, 3
    queue = device.queue(False)
    program = module(kernel("odd", argument("a", 0, writes=True), grid=(2, 1, 2)), regions=1)
    linked(program, queue, placed(queue, np.zeros(CELLS)), scratch=(8, 0))()
    queue.synchronize()
    ((scratch, profile),) = seen
    assert scratch and profile == 0 and fake.memory[scratch][2] == 4 * 8


def test_much_shared_memory_is_asked_for(fake, device):
    queue = device.queue(False)
    program = module(kernel("double", argument("a", 0, writes=True)), regions=1)
    entry = linked(program, queue, placed(queue, np.ones(CELLS)), shared=200 * 1024)
    entry()
    queue.synchronize()
    assert fake.calls.count("cuFuncSetAttribute") == 1
    allowed = {f.shared_allowed for f in fake.objects.values() if isinstance(f, Function)}
    assert allowed == {200 * 1024}


def test_kernels_that_do_nothing_keep_the_order_of_others(queue):
    a, b = argument("a", 0, writes=True), argument("b", 1, writes=True)
    program = module(
        kernel("double", a), kernel("add", a, b, b, grid=(0, 1, 1)), kernel("add", b, a, a), regions=2
    )
    assert program.edges == ((0, 1), (1, 2))
    places = placed(queue, np.ones(CELLS), np.ones(CELLS))
    call(queue, linked(program, queue, places))
    assert read(queue, places[1]).tolist() == [4] * CELLS
    call(queue, linked(module(regions=0), queue, []))
    queue.synchronize()


def test_equal_kernels_are_loaded_once_and_unloaded(fake, device):
    queue = device.queue(False)
    program = module(*[kernel("double", argument("a", n, writes=True)) for n in range(3)])
    entries = [linked(program, queue, placed(queue, *np.ones((3, CELLS)))) for _ in range(3)]
    assert fake.calls.count("cuModuleLoadData") == 1
    for entry in entries:
        entry()
    del entry, entries
    gc.collect()
    assert fake.alive(tuple) and not fake.alive(dict) and not fake.alive(list)
    queue.synchronize()
    device.clear()
    assert not fake.alive(tuple) and fake.launched == ["double"] * 9


def test_memory_that_would_be_shared_is_refused(queue):
    program = module(kernel("double", argument("a", 0, writes=True)), regions=2)
    slab = queue.device.alloc_pool(200)
    with pytest.raises(CompileError, match="shares memory"):
        linked(program, queue, [Location(slab, 0), Location(slab, 8)])
    with pytest.raises(CompileError, match="works on 2 regions of memory and is given 1"):
        linked(program, queue, [Location(slab, 0)])


def test_a_kernel_that_fails_is_told_at_the_latest_when_somebody_waits(fake, device):
    def lost(grid, to): fake.sticky = 700

    fake.kernels[b"lost"] = lost, 1
    queue = device.queue(False)
    entry = linked(module(kernel("lost", argument("a", 0, writes=True)), regions=1), queue, placed(queue, np.ones(8)))
    entry()
    with pytest.raises(DeviceLost, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        queue.synchronize()
    with pytest.raises(DeviceLost, match="can no longer be used by this process"):
        entry()


@pytest.mark.parametrize("symbols", [1, 3, 40])
def test_the_assembler_takes_the_node_that_puts_symbols(symbols, tmp_path):
    spec = find_spec("triton")
    bundled = Path(str(spec and spec.origin)).parent / "backends" / "nvidia" / "bin" / "ptxas"
    found = shutil.which("ptxas") or (bundled if bundled.exists() else None)
    if found is None:
        pytest.skip("needs ptxas")
    text = put(symbols).image[:-1].decode()
    assert len(re.findall(r"st\.global\.u64", text)) == symbols
    (tmp_path / "put.ptx").write_text(text)
    for sm in (80, 90):
        command = [found, f"-arch=sm_{sm}", "-o", tmp_path / "put.cubin", tmp_path / "put.ptx"]
        subprocess.run(command, check=True)
    assert (tmp_path / "put.cubin").read_bytes().startswith(b"\x7fELF")

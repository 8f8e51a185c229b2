"""CUDA graphs, on a driver that runs kernels in any order that the dependences allow."""

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
from ocannl_backend_triton.cuda_graph import GraphLaunch, symbol_writer
from ocannl_backend_triton.device import devices
from ocannl_backend_triton.driver import open_driver
from ocannl_backend_triton.kernel_module import SCRATCH_REGION, STATICS_REGION, Argument, Kernel, KernelModule
from ocannl_backend_triton.serialization import Binary

CELLS = 8


def cells(address, count=CELLS):
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))


def write_symbols(grid, address, *values):
    cells(address, len(values))[:] = np.array(values, np.uint64).view(np.int64)


def add(grid, to, left, right): cells(to)[:] = cells(left) + cells(right)


def double(grid, to): cells(to)[:] *= 2


def increase(grid, to, by): cells(to)[:] += cells(by, 2)[1]


BODIES = {"add": (add, 3), "double": (double, 1), "increase": (increase, 2)}


def argument(name, region, reads=True, writes=False, offset=0):
    return Argument(name, "i64", region, offset, 8 * CELLS, reads, writes)


def kernel(name, *arguments, grid=(1, 1, 1)):
    return Kernel(name, name, arguments, grid)


def module(*kernels, regions=3, **fields):
    return KernelModule("program", "text", kernels, tuple((f"r{n}", 8 * CELLS) for n in range(regions)), **fields)


@pytest.fixture(params=range(5))
def fake(request):
    fake = FakeCuda(seed=request.param)
    for name, (body, count) in BODIES.items():
        fake.kernels[name.encode()] = body, count
    for symbols in range(1, 4):
        fake.kernels[symbol_writer(symbols).image[:-1]] = write_symbols, 1 + symbols
    return fake


@pytest.fixture
def device(fake):
    return devices(open_driver(fake.functions))[0]


@pytest.fixture(params=[False, True], ids=["inline", "threaded"])
def queue(device, request):
    return device.queue(request.param)


def binary(name, shared=0, scratch=()):
    return Binary(name, name.encode(), 128, shared, scratch)


def link(program, queue, locations, **fields):
    return GraphLaunch(program, [binary(k.name, **fields) for k in program.kernels], queue, locations)


def allocate(queue, *arrays):
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


def test_kernels_run_in_order_of_dependences(queue):
    n = np.arange(CELLS)
    program = module(
        kernel("double", argument("b", 1, writes=True)),
        kernel("add", argument("a", 0, False, True), argument("b", 1), argument("c", 2)),
        kernel("double", argument("c", 2, writes=True)),
        kernel("double", argument("a", 0, writes=True)),
        kernel("double", argument("b", 1, writes=True)),
    )
    assert program.dependences == ((0, 1), (1, 2), (1, 3), (1, 4))
    locations = allocate(queue, 0 * n, n, 10 + n)
    entry = link(program, queue, locations)
    for repetitions in range(1, 3):
        call(queue, entry)
        b, c = 4 ** (repetitions - 1) * n, 2 ** (repetitions - 1) * (10 + n)
        want = 2 * (2 * b + c), 4 * b, 2 * c
        for location, expected in zip(locations, want, strict=True):
            assert np.array_equal(read(queue, location), expected)


def test_a_routine_is_a_single_launch(fake, device):
    queue = device.queue(False)
    program = module(*[kernel("double", argument("a", n, writes=True)) for n in range(3)])
    entry = link(program, queue, allocate(queue, *np.ones((3, CELLS))))
    before = len(fake.calls)
    entry()
    assert fake.calls[before:] == ["cuCtxPushCurrent_v2", "cuGraphLaunch", "cuCtxPopCurrent_v2"]


def test_launches_use_separate_symbol_values(queue):
    statics = Argument("statics", "i64", STATICS_REGION, 0, 16, True, False)
    program = module(kernel("increase", argument("a", 0, True, True), statics), regions=1, symbols=2)
    (location,) = locations = allocate(queue, np.zeros(CELLS))
    entry = link(program, queue, locations)
    for value in (1, 10, -3, 2**40, -(2**40)):  # each is still pending when the next is submitted
        call(queue, entry, 99, value)
    assert read(queue, location).tolist() == [8] * CELLS


def test_scratch_memory_is_private(queue):
    program = module(
        kernel("add", argument("s", SCRATCH_REGION, False, True), argument("a", 0), argument("a", 0)),
        kernel("add", argument("a", 0, False, True), argument("s", SCRATCH_REGION), argument("s", SCRATCH_REGION)),
        regions=1, scratch_bytes=8 * CELLS,
    )  # fmt: skip
    (location,) = locations = allocate(queue, np.ones(CELLS))
    call(queue, link(program, queue, locations))
    assert read(queue, location).tolist() == [4] * CELLS


def test_arguments_start_at_offsets_in_regions(queue):
    half = 8 * CELLS
    only = kernel("double", argument("a", 0, writes=True, offset=half))
    program = KernelModule("program", "", (only,), (("arena", 2 * half),))
    slab = queue.device.alloc_pool(3 * half)
    queue.from_host(Location(slab, half), np.arange(2 * CELLS))
    call(queue, link(program, queue, [Location(slab, half)]))
    assert read(queue, Location(slab, half)).tolist() == list(range(CELLS))
    assert read(queue, Location(slab, 2 * half)).tolist() == list(range(2 * CELLS, 4 * CELLS, 2))


def test_scratch_pointers_are_appended(fake, device):
    seen = []

    def body(grid, to, scratch, profile):
        seen.append((scratch, profile))
        cells(scratch, 4)[:] = 1

    fake.kernels[b"odd"] = body, 3
    queue = device.queue(False)
    program = module(kernel("odd", argument("a", 0, writes=True), grid=(2, 1, 2)), regions=1)
    link(program, queue, allocate(queue, np.zeros(CELLS)), scratch=(8, 0))()
    queue.synchronize()
    ((scratch, profile),) = seen
    assert scratch and profile == 0 and fake.memory[scratch][2] == 4 * 8


def test_large_shared_memory_sets_the_function_attribute(fake, device):
    queue = device.queue(False)
    program = module(kernel("double", argument("a", 0, writes=True)), regions=1)
    entry = link(program, queue, allocate(queue, np.ones(CELLS)), shared=200 * 1024)
    entry()
    queue.synchronize()
    assert fake.calls.count("cuFuncSetAttribute") == 1
    allowed = {f.shared_allowed for f in fake.objects.values() if isinstance(f, Function)}
    assert allowed == {200 * 1024}


def test_empty_kernels_keep_transitive_dependences(queue):
    a, b = argument("a", 0, writes=True), argument("b", 1, writes=True)
    program = module(
        kernel("double", a), kernel("add", a, b, b, grid=(0, 1, 1)), kernel("add", b, a, a), regions=2
    )
    assert program.dependences == ((0, 1), (1, 2))
    locations = allocate(queue, np.ones(CELLS), np.ones(CELLS))
    call(queue, link(program, queue, locations))
    assert read(queue, locations[1]).tolist() == [4] * CELLS
    call(queue, link(module(regions=0), queue, []))
    queue.synchronize()


def test_equal_kernels_are_loaded_once_and_unloaded(fake, device):
    queue = device.queue(False)
    program = module(*[kernel("double", argument("a", n, writes=True)) for n in range(3)])
    entries = [link(program, queue, allocate(queue, *np.ones((3, CELLS)))) for _ in range(3)]
    assert fake.calls.count("cuModuleLoadData") == 1
    for entry in entries:
        entry()
    del entry, entries
    gc.collect()
    assert fake.count_alive(tuple) and not fake.count_alive(dict) and not fake.count_alive(list)
    queue.synchronize()
    device.drain()
    assert not fake.count_alive(tuple) and fake.launched == ["double"] * 9


def test_overlapping_regions_are_rejected(queue):
    program = module(kernel("double", argument("a", 0, writes=True)), regions=2)
    slab = queue.device.alloc_pool(200)
    with pytest.raises(CompileError, match="overlaps another array"):
        link(program, queue, [Location(slab, 0), Location(slab, 8)])
    with pytest.raises(CompileError, match="takes 2 memory regions, but 1 are passed"):
        link(program, queue, [Location(slab, 0)])


def test_kernel_failure_is_raised_by_synchronize(fake, device):
    def fail(grid, to): fake.sticky = 700

    fake.kernels[b"lost"] = fail, 1
    queue = device.queue(False)
    entry = link(module(kernel("lost", argument("a", 0, writes=True)), regions=1), queue, allocate(queue, np.ones(8)))
    entry()
    with pytest.raises(DeviceLost, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        queue.synchronize()
    with pytest.raises(DeviceLost, match="can no longer be used by this process"):
        entry()


@pytest.mark.parametrize("symbols", [1, 3, 40])
def test_ptxas_assembles_the_symbol_writer(symbols, tmp_path):
    spec = find_spec("triton")
    bundled = Path(str(spec and spec.origin)).parent / "backends" / "nvidia" / "bin" / "ptxas"
    ptxas = shutil.which("ptxas") or (bundled if bundled.exists() else None)
    if ptxas is None:
        pytest.skip("needs ptxas")
    text = symbol_writer(symbols).image[:-1].decode()
    assert len(re.findall(r"st\.global\.u64", text)) == symbols
    (tmp_path / "put.ptx").write_text(text)
    for sm in (80, 90):
        command = [ptxas, f"-arch=sm_{sm}", "-o", tmp_path / "put.cubin", tmp_path / "put.ptx"]
        subprocess.run(command, check=True)
    assert (tmp_path / "put.cubin").read_bytes().startswith(b"\x7fELF")

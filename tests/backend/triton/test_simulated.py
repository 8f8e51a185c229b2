"""The conformance kit on simulated GPUs: everything except machine code is what runs on real ones.

The simulated driver does work as late as possible, and kernels run in Triton's interpreter. These tests check memory
and the order of execution; other tests check the results of kernels.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("triton")

import triton.language as tl
from fake_cuda import FakeCuda
from test_dlpack import DeviceArray
from triton.runtime.interpreter import TensorHandle

import ocannl as oc
from ocannl.backend import CompileError, DeviceLost, OutOfMemory, Unsupported, registry
from ocannl.base.errors import DtypeError, ShapeError
from ocannl.testing import kit
from ocannl_backend_triton import cuda_machine, interpreter
from ocannl_backend_triton.backend import TritonBackend
from ocannl_backend_triton.cuda_graph import symbol_writer
from ocannl_backend_triton.driver import open_driver
from ocannl_backend_triton.serialization import Binary


class SimulatedMachine(cuda_machine.CudaMachine):
    def __init__(self, fake):
        super().__init__(open_driver(fake.functions))
        self.fake = fake

    def compile(self, modules):
        return {target.sm: [self.binaries(module) for module in modules] for target in self.targets}

    def binaries(self, module):
        digest = hashlib.sha256(repr(module).encode()).hexdigest()
        result = []
        for number, kernel in enumerate(module.kernels):
            image = f"{digest} {number}".encode()
            self.fake.kernels[image] = interpreted(module, kernel), len(kernel.arguments)
            result.append(Binary(kernel.name, image, 32 * kernel.num_warps, 0, ()))
        return result


def interpreted(module, kernel):
    """The kernel as a function of the grid and addresses."""

    @cache
    def function():
        return interpreter.interpreted_kernels(module)[kernel.name]

    def body(grid, *addresses):
        pointers = []
        for address, argument in zip(addresses, kernel.arguments, strict=True):
            element_type = tl.pointer_type(tl.str_to_ty(argument.type, None))
            pointers.append(tl.tensor(TensorHandle(np.array([address], np.uint64), element_type), element_type))
        with interpreter.interpreting():
            function()[grid](*pointers, *(value for _, value in kernel.constants))

    return body


def write_symbols(grid, address, *values):
    (ctypes.c_uint64 * len(values)).from_address(address)[:] = values


CODE = {}  # bodies of kernels by image, for all simulated drivers


def simulated_backend(fake):
    fake.kernels = CODE
    for symbols in range(1, 8):
        fake.kernels[symbol_writer(symbols).image[:-1]] = write_symbols, 1 + symbols
    return TritonBackend(SimulatedMachine(fake))


@cache
def simulated():
    return simulated_backend(FakeCuda(devices=2))


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch):
    """The code of a kernel stays in this process, so that an image from another process means nothing."""
    monkeypatch.setenv("OCANNL_CACHE", "off")


class Simulated:
    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls):
        with patch.dict(registry._backends, triton=simulated()):
            yield simulated()


class TestMemory(Simulated, kit.Memory):
    pass


class TestQueues(Simulated, kit.Queues):
    pass


class TestLinking(Simulated, kit.Linking):
    pass


class TestBlobs(Simulated, kit.Blobs):
    pass


class TestLayouts(Simulated, kit.Layouts):
    pass


class TestTransfers(Simulated, kit.Transfers):
    pass


class TestConcurrency(Simulated, kit.Concurrency):
    pass


class TestSharing(Simulated):
    """Nodes are set from arrays of other libraries, and shared with them, without copies through the host."""

    @pytest.fixture(params=["inline", "threaded"])
    def ctx(self, tested, request):
        context = oc.Context("triton", queue=request.param)
        yield context
        context.close()

    def test_nodes_are_set_from_arrays_on_the_device(self, tested, ctx):
        fake = tested._machine.fake
        x = oc.placeholder("x", output=[2, 3])
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        fake.memory[array.ctypes.data] = array, fake.devices[0], array.nbytes
        ctx[x] = DeviceArray(array)
        assert np.array_equal(ctx[x], array)
        with pytest.raises(ShapeError, match=r"`x` has the sizes \(2, 3\), but the assigned array has \(3, 2\)"):
            ctx[x] = DeviceArray(array.reshape(3, 2))
        with pytest.raises(DtypeError, match="`x` is of type float32, but the array is of type int32: convert it"):
            ctx[x] = DeviceArray(array.astype(np.int32))
        assert np.array_equal(ctx[x], array)
        ctx.close()
        del fake.memory[array.ctypes.data]

    def test_nodes_are_lent(self, ctx):
        x, y = oc.placeholder("x", output=[3]), oc.placeholder("y", output=[3])
        ctx[x] = [1, 2, 3]
        ctx[y] = ctx.share(x)
        assert ctx[y].tolist() == [1, 2, 3]


class TestFaults:
    """Failures raise the documented errors; afterwards the context is usable, or raises the reason why not."""

    @pytest.fixture
    def fake(self):
        return FakeCuda(total=1 << 20)

    @pytest.fixture(params=["inline", "threaded"])
    def ctx(self, fake, request):
        with patch.dict(registry._backends, triton=simulated_backend(fake)), oc.settings(cache=False):
            yield oc.Context("triton", queue=request.param)

    def test_out_of_memory(self, ctx):
        x, large = oc.placeholder("x", output=[4]), oc.placeholder("large", output=[1 << 20])
        ctx[x] = [1, 2, 3, 4]
        with pytest.raises(OutOfMemory, match=r"no 4194304 bytes to give on Fake GPU; .* `large` .* takes 4194304"):
            ctx[large] = 0
        y = x + 1
        ctx.run(y.forward)
        assert ctx[y].tolist() == [2, 3, 4, 5]

    def test_a_kernel_that_does_not_compile(self, ctx):
        x = oc.placeholder("x", output=[4])
        ctx[x] = 1
        y = x + 1
        broken = patch.object(SimulatedMachine, "binaries", side_effect=CompileError("refused"))
        with broken, pytest.raises(CompileError, match="refused"):
            ctx.compile((x * 3).forward)
        ctx.run(y.forward)
        assert ctx[y].tolist() == [2] * 4

    def test_an_unsupported_precision(self, ctx):
        x = oc.placeholder("x", output=[4], dtype=oc.float32)
        narrow = replace(ctx.backend.capabilities, precisions=frozenset({"int32"}))
        less = patch("ocannl_backend_triton.backend.CAPABILITIES", narrow)
        with less, pytest.raises(Unsupported, match="float32, not among the `precisions` of backend `triton`"):
            ctx.compile((x * 5).forward)

    def test_a_lost_device(self, ctx, fake):
        x = oc.placeholder("x", output=[4])
        ctx[x] = [1, 2, 3, 4]
        y = x + 1
        step = ctx.compile(y.forward)
        step()
        fake.sticky = 700
        for act in (ctx.synchronize, step, lambda: ctx[x], lambda: oc.Context("triton")):
            with pytest.raises((DeviceLost, oc.UninitializedError)):
                act()
                ctx.synchronize()
        with pytest.raises(DeviceLost, match="can no longer be used by this process, and its contents are lost: "):
            oc.Context("triton")
        with pytest.raises(DeviceLost):
            ctx.close()
        ctx.close()
        with pytest.raises(oc.CodeError, match="this context is closed"):
            ctx[x] = 0


class TestPrograms(Simulated, kit.Programs):
    pass

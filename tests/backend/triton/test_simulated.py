"""The conformance kit on simulated GPUs: everything but the machine code is what runs on real ones.

The driver is simulated, and does work as late as it can; kernels run in triton's interpreter. What a program computes
is judged elsewhere; here it is judged that it is computed on the right memory, in the right order.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("triton")

import triton.language as tl
from fake_cuda import FakeCuda
from test_dlpack import Elsewhere
from triton.runtime.interpreter import TensorHandle

import ocannl as oc
from ocannl.backend import registry
from ocannl.base.errors import DtypeError, ShapeError
from ocannl.testing import kit
from ocannl_backend_triton import cuda, interpreter
from ocannl_backend_triton.backend import TritonBackend
from ocannl_backend_triton.driver import opened
from ocannl_backend_triton.graph import put
from ocannl_backend_triton.package import Binary


class SimulatedMachine(cuda.CudaMachine):
    def __init__(self, fake):
        super().__init__(opened(fake.functions))
        self.fake = fake

    def compile(self, modules):
        return {target.sm: [self.binaries(module) for module in modules] for target in self.targets}

    def binaries(self, module):
        digest = hashlib.sha256(repr(module).encode()).hexdigest()
        made = []
        for number, kernel in enumerate(module.kernels):
            image = f"{digest} {number}".encode()
            self.fake.kernels[image] = interpreted(module, kernel), len(kernel.arguments)
            made.append(Binary(kernel.name, image, 32 * kernel.num_warps, 0, ()))
        return made


def interpreted(module, kernel):
    """What the kernel does with addresses."""

    @cache
    def function():
        return interpreter.functions(module)[kernel.name]

    def body(grid, *addresses):
        pointers = []
        for address, argument in zip(addresses, kernel.arguments, strict=True):
            kind = tl.pointer_type(tl.str_to_ty(argument.type, None))
            pointers.append(tl.tensor(TensorHandle(np.array([address], np.uint64), kind), kind))
        with interpreter.interpreting():
            function()[grid](*pointers, *(value for _, value in kernel.constants))

    return body


def put_body(grid, address, *values):
    (ctypes.c_uint64 * len(values)).from_address(address)[:] = values


@cache
def simulated():
    fake = FakeCuda(devices=2)
    for symbols in range(1, 8):
        fake.kernels[put(symbols).image[:-1]] = put_body, 1 + symbols
    return TritonBackend(SimulatedMachine(fake))


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
    """Arrays of other libraries set nodes without a detour, and nodes are theirs to use."""

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
        ctx[x] = Elsewhere(array)
        assert np.array_equal(ctx[x], array)
        with pytest.raises(ShapeError, match=r"`x` has the sizes \(2, 3\), and the array that is to set it \(3, 2\)"):
            ctx[x] = Elsewhere(array.reshape(3, 2))
        with pytest.raises(DtypeError, match="`x` is of type float32, and the array is of type int32: convert it"):
            ctx[x] = Elsewhere(array.astype(np.int32))
        assert np.array_equal(ctx[x], array)
        ctx.close()
        del fake.memory[array.ctypes.data]

    def test_nodes_are_lent(self, ctx):
        x, y = oc.placeholder("x", output=[3]), oc.placeholder("y", output=[3])
        ctx[x] = [1, 2, 3]
        ctx[y] = ctx.share(x)
        assert ctx[y].tolist() == [1, 2, 3]

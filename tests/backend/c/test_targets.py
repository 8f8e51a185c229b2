"""Code for CPUs with narrower vectors, selected by compiler flags, which also runs on this CPU."""

import numpy as np
import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

import ocannl as oc
from ocannl.base.config import settings
from ocannl.ir.precision import precision
from ocannl_backend_c import toolchain

TARGETS = {"-mno-avx512f": (32, 16), "-mno-avx": (16, 16), "-mno-avx512f -mno-fma": (32, 16), "-O0": None}


@pytest.fixture(params=TARGETS)
def target(request, c):
    host = c.capabilities
    with settings(c_compiler=" ".join([*toolchain.command(), request.param])):
        status, _, _ = toolchain.run([*toolchain.command(), "-E", "-x", "c", "/dev/null"], ".")
        if status:
            pytest.skip("not a processor of this kind")
        capabilities = c.capabilities
        expected = TARGETS[request.param]
        if expected is not None and host.vector_bytes >= expected[0]:
            assert (capabilities.vector_bytes, capabilities.vector_registers) == expected
        yield capabilities


@pytest.mark.parametrize("check", [check for _, check in NATIVE_SAMPLES], ids=lambda f: f.__name__)
def test_samples(target, run, check):
    check(run)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_layer(target, dtype):
    random = np.random.default_rng(0)
    w, x = (random.integers(-2, 3, shape) for shape in ((17, 21), (9, 21)))
    kind = precision(dtype).numpy
    y = oc.relu(oc.tensor(w.astype(kind), input_axes=1) @ oc.tensor(x.astype(kind), batch_axes=1) + 1)
    with oc.settings(cache=False), oc.Context("c") as ctx:
        routine = ctx.compile(y.forward)
        routine()
        np.testing.assert_array_equal(ctx[y], np.maximum(x @ w.T + 1, 0).astype(kind))
        if dtype == "float32" and target.vector_bytes:
            assert f"f32x{min(16, target.vector_bytes // 4)}" in routine.source()

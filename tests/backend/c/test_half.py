"""Programs for CPUs without instructions for float16 and fused multiply-add use functions with the same results."""

import numpy as np
import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

from ocannl.base.config import settings
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Cast, Load, Proc, Ref, Store, loop
from ocannl.ir.precision import float16, float32, float64
from ocannl.testing.edge_values import assert_same, near, patterns
from ocannl_backend_c import toolchain


@pytest.fixture
def old_cpu(c, tmp_path):
    """This CPU without both instruction sets."""
    command = " ".join([*toolchain.command(), "-mno-f16c", "-mno-fma", "-mno-avx512f"])
    with settings(c_compiler=command):
        status, macros, _ = toolchain.run([*toolchain.command(), "-march=native", "-dM", "-E", "-x", "c", "/dev/null"],
                                          tmp_path)  # fmt: skip
        if status:
            pytest.skip("every processor of this kind has them")
        assert b"__F16C__" not in macros and b"__FP_FAST_FMAF " not in macros
        yield


def cast(run, array, target):
    y = np.zeros(array.size, target.numpy)
    bufs = run.like("x", array, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    at = (Affine.of(i := Sym("i", 0, array.size - 1)),)
    body = (loop(i, (Store(Ref(bufs[1], at), Cast(Load(Ref(bufs[0], at)), target)),)),)
    return run(Proc("cast", bufs, (), body), array, y)[1]


@pytest.mark.parametrize("target", [float32, float64], ids=str)
def test_half_without_conversion_instructions(old_cpu, run, target):
    values, inputs = patterns(float16), near(float16, target)
    with np.errstate(all="ignore"):
        rounded = inputs.astype(np.float16)
    assert_same(cast(run, values, target), values.astype(target.numpy))
    assert_same(cast(run, inputs, float16), rounded)


@pytest.mark.parametrize("check", [check for _, check in NATIVE_SAMPLES], ids=lambda f: f.__name__)
def test_programs_without_fused_products(old_cpu, run, check):
    check(run)

"""Where the processor has no instructions for float16 and fused products, functions do the same."""

import numpy as np
import pytest

from ocannl.base.config import settings
from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Access, Cast, Load, Proc, Ref, Store, loop
from ocannl.ir.precision import float16, float32, float64
from ocannl.testing.numbers import assert_same, near, patterns
from ocannl.testing.samples import SAMPLES
from ocannl_backend_c import toolchain


@pytest.fixture
def old_processor(c, tmp_path):
    """This one, as if it had neither."""
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
    bufs = run.like("x", array, Access.IN), run.like("y", y, Access.OUT)
    at = (Affine.of(i := Sym("i", 0, array.size - 1)),)
    body = (loop(i, (Store(Ref(bufs[1], at), Cast(Load(Ref(bufs[0], at)), target)),)),)
    return run(Proc("cast", bufs, (), body), array, y)[1]


@pytest.mark.parametrize("wide", [float32, float64], ids=str)
def test_half_without_instructions_for_it(old_processor, run, wide):
    every, places = patterns(float16), near(float16, wide)
    with np.errstate(all="ignore"):
        rounded = places.astype(np.float16)
    assert_same(cast(run, every, wide), every.astype(wide.numpy))
    assert_same(cast(run, places, float16), rounded)


@pytest.mark.parametrize("check", [check for _, check in SAMPLES], ids=lambda f: f.__name__)
def test_programs_without_fused_products(old_processor, run, check):
    check(run)

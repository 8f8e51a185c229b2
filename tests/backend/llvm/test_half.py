"""Conversions of float16 on CPUs without instructions for them."""

import numpy as np
import pytest

from ocannl.codegen import signature
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Cast, Load, Proc, Ref, Store, loop
from ocannl.ir.precision import float16, float32, float64
from ocannl.testing.edge_values import assert_same, near, patterns
from ocannl_backend_llvm.compiled_code import compile_package
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.jit import Target, host

WIDE = [float32, float64]


def old_cpu():
    """The host target without conversion instructions for float16."""
    target = host()
    features = ",".join(f for f in target.features.split(",") if f not in ("+f16c", "-f16c") and "avx512" not in f)
    return Target(target.triple, "x86-64", f"{features},-f16c") if target.triple.startswith("x86_64") else None


def on(target, proc):
    return compile_package([signature(proc)], emit([proc], target.instructions), target)


def cast_program(run, array, target):
    x, y = run.like("x", array, AccessMode.IN), run.like("y", np.zeros(array.size, target.numpy), AccessMode.OUT)
    at = (Affine.of(i := Sym("i", 0, array.size - 1)),)
    return Proc("cast", (x, y), (), (loop(i, (Store(Ref(y, at), Cast(Load(Ref(x, at)), target)),)),))


def cast(run, array, target, code=None):
    return run(cast_program(run, array, target), array, np.zeros(array.size, target.numpy), code=code)[1]


@pytest.mark.parametrize("float_type", WIDE, ids=str)
def test_half_without_conversion_instructions(llvm, run, float_type):
    target = old_cpu()
    if target is None:
        pytest.skip("every processor of this kind converts float16")
    assert not target.instructions.half
    values, inputs = patterns(float16), near(float16, float_type)
    with np.errstate(all="ignore"):
        rounded = inputs.astype(np.float16)
    widening, narrowing = cast_program(run, values, float_type), cast_program(run, inputs, float16)
    assert_same(cast(run, values, float_type, on(target, widening)), values.astype(float_type.numpy))
    assert_same(cast(run, inputs, float16, on(target, narrowing)), rounded)

"""Conversions of float16 where the processor has no instructions for them."""

import numpy as np
import pytest

from ocannl.codegen import signature
from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Access, Cast, Load, Proc, Ref, Store, loop
from ocannl.ir.precision import float16, float32, float64
from ocannl.testing.numbers import assert_same, near, patterns
from ocannl_backend_llvm.code import compiled
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.jit import Target, host

WIDE = [float32, float64]


def old_processor():
    """This one, as if it could not convert float16."""
    target = host()
    features = ",".join(f for f in target.features.split(",") if f not in ("+f16c", "-f16c") and "avx512" not in f)
    return Target(target.triple, "x86-64", f"{features},-f16c") if target.triple.startswith("x86_64") else None


def on(target, proc):
    return compiled([signature(proc)], emit([proc], target.instructions), target)


def cast_program(run, array, target):
    x, y = run.like("x", array, Access.IN), run.like("y", np.zeros(array.size, target.numpy), Access.OUT)
    at = (Affine.of(i := Sym("i", 0, array.size - 1)),)
    return Proc("cast", (x, y), (), (loop(i, (Store(Ref(y, at), Cast(Load(Ref(x, at)), target)),)),))


def cast(run, array, target, code=None):
    return run(cast_program(run, array, target), array, np.zeros(array.size, target.numpy), code=code)[1]


@pytest.mark.parametrize("wide", WIDE, ids=str)
def test_half_without_instructions_for_it(llvm, run, wide):
    target = old_processor()
    if target is None:
        pytest.skip("every processor of this kind converts float16")
    assert not target.instructions.half
    every, places = patterns(float16), near(float16, wide)
    with np.errstate(all="ignore"):
        rounded = places.astype(np.float16)
    widening, narrowing = cast_program(run, every, wide), cast_program(run, places, float16)
    assert_same(cast(run, every, wide, on(target, widening)), every.astype(wide.numpy))
    assert_same(cast(run, places, float16, on(target, narrowing)), rounded)

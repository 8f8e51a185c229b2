"""Sums over many blocks of a loop: two nested loops, whose generated code is checked, executed and compiled."""

from dataclasses import replace

import numpy as np
import pytest

import ocannl as oc
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl_backend_triton import emit_kernel
from ocannl_backend_triton.backend import CAPABILITIES
from ocannl_backend_triton.emit_module import generate_module

SHAPE = (4, 3_000_001)


def long_sum():
    """A sum of so many terms in each row that some remain in one program after the sum is split."""
    x = oc.placeholder("x", o=SHAPE)
    y = oc.einsum("i j => i", x)
    return optimize(lower(y.forward.elaborate().comp, "sums"), {y.node: "kept"}, replace(CAPABILITIES, grid_threads=1))


def test_blocks_of_long_sums_are_added_in_two_loops():
    text = generate_module(long_sum()).source
    assert "_wide_total += " in text and "tl.minimum" in text


def test_short_sums_keep_one_loop(monkeypatch):
    monkeypatch.setattr(emit_kernel, "MAX_SUMMED_BLOCKS", 1 << 20)
    assert "_wide_total" not in generate_module(long_sum()).source


@pytest.mark.parametrize(("shape", "spec", "axis"), [
    ((3, 90_001), "i j => i", 1), ((4001, 5), "i j => j", 0), ((5, 1 << 16), "i j => i", 1),
])  # fmt: skip
def test_values(shape, spec, axis, context, monkeypatch):
    monkeypatch.setattr(emit_kernel, "MAX_SUMMED_BLOCKS", 2)
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    y = oc.einsum(spec, oc.tensor(x))
    routine = context.compile(y.forward, keep=[y])
    routine()
    assert "_wide_total += " in routine.source()
    np.testing.assert_allclose(context[y], x.sum(axis, np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("sm", [80, 90])
def test_machine_code(sm):
    pytest.importorskip("triton")
    from ocannl_backend_triton.compile import compile_kernels
    from ocannl_backend_triton.cuda_target import TARGETS

    for binary in compile_kernels(generate_module(long_sum()), TARGETS[sm]):
        assert binary.image.startswith(b"\x7fELF")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [30, 900])
def test_scatters_of_terms_that_a_single_addition_loses(rows, dtype, context):
    """Also into a table with more cells than there are terms, and in float64."""
    eps, count = np.finfo(dtype).eps, 300
    x, ids = np.full(count, 0.99 * eps / 2, dtype), np.full(count, 3, "int32")
    x[0] = 1.0
    actual = oc.segment_sum(oc.tensor(x), oc.tensor(ids), rows).eval(context)
    exact = x.sum(dtype=np.longdouble)
    assert abs(actual[3] - exact) <= 64 * eps * exact
    assert not np.delete(actual, 3).any()

"""Stores to adjacent cells of each lane become contiguous stores of interleaved vectors."""

import numpy as np
import pytest

from ocannl.codegen import signature
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Apply, Const, Load, Mode, Proc, Ref, Store, loop
from ocannl.ir.ops import ADD
from ocannl.ir.precision import bfloat16, float16, float32, float64, int8, int64
from ocannl_backend_llvm.compiled_code import compile_package
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.jit import host

ROWS = 3


def program(run, x, y, width, components, source):
    """`y[i, lane, c] = source(x, y)[i, lane, c] + c` for the components in the order given."""
    x_buf, y_buf = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.INOUT)
    i, lane = Sym("i", 0, ROWS - 1), Sym("l", 0, width - 1)
    stores = []
    for c in components:
        read = Ref({"x": x_buf, "y": y_buf}[source], (Affine.of(i), Affine.of(lane), Affine.of(x.shape[2] - 1 - c)))
        value = Apply(ADD, (Load(read), Const(c, x_buf.precision)))
        stores.append(Store(Ref(y_buf, (Affine.of(i), Affine.of(lane), Affine.of(c))), value))
    body = (loop(i, (loop(lane, tuple(stores), mode=Mode.VECTORIZED),)),)
    return Proc("components", (x_buf, y_buf), (), body)


def arrays(kind, width, count):
    cells = np.arange(ROWS * width * count) % 100
    return cells.reshape(ROWS, width, count).astype(kind.numpy), np.full((ROWS, width, count), 7, kind.numpy)


def text(proc):
    return "\n".join(map(str, emit([proc], host().instructions)))


def stored(run, proc, x, y):
    return run(proc, x, y, code=compile_package([signature(proc)], emit([proc], host().instructions), host()))[1]


@pytest.mark.parametrize("kind", [float32, float64, float16, bfloat16, int8, int64], ids=str)
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("width", [2, 3, 4, 8, 16])
def test_components_are_interleaved(llvm, run, kind, count, width):
    x, y = arrays(kind, width, count)
    proc = program(run, x, y, width, range(count), "x")
    assert "masked.scatter" not in text(proc)
    expected = x[:, :, ::-1] + np.arange(count).astype(kind.numpy)
    np.testing.assert_array_equal(stored(run, proc, x, y), expected)


@pytest.mark.parametrize("components", [(0, 2, 1), (0, 1), (1, 2), (0, 1, 1, 2)], ids=str)
def test_other_orders_and_gaps_are_scattered(llvm, run, components):
    x, y = arrays(float32, 8, 3)
    proc = program(run, x, y, 8, components, "x")
    assert "masked.scatter" in text(proc)
    expected = y.copy()
    for c in components:
        expected[:, :, c] = x[:, :, 2 - c] + c
    np.testing.assert_array_equal(stored(run, proc, x, y), expected)


def test_stores_in_place_keep_their_order(llvm, run):
    x, _ = arrays(float32, 8, 3)
    proc = program(run, x, x, 8, range(3), "y")
    expected = x.copy()
    for c in range(3):
        expected[:, :, c] = expected[:, :, 2 - c] + c
    np.testing.assert_array_equal(stored(run, proc, np.zeros_like(x), x), expected)


def test_more_than_four_components_are_scattered(llvm, run):
    x, y = arrays(float32, 8, 5)
    proc = program(run, x, y, 8, range(5), "x")
    assert "masked.scatter" in text(proc)
    np.testing.assert_array_equal(stored(run, proc, x, y), x[:, :, ::-1] + np.arange(5, dtype=np.float32))

"""Scans along axes before the last one: loops over rows on CPUs, with values and gradients equal to those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.backend.registry import resolve
from ocannl.ir.assign import Loop, ParallelForm, Seq
from ocannl.ir.sequential_form import sequential_form
from ocannl.lang.core import sequential_scans

Array = np.ndarray[Any, Any]
SCANS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
SHAPES = {  # by spec, with the scanned axis
    "ij => j": [((1, 16), 0), ((2, 17), 0), ((37, 40), 0), ((100, 16), 0)],
    "ijk => ik": [((3, 20, 16), 1), ((2, 7, 50), 1)],
    "ijk => jk": [((19, 3, 7), 0), ((5, 6, 33), 0)],
    "abcd => abd": [((2, 3, 11, 18), 2)],
    "abcd => acd": [((2, 13, 3, 18), 1), ((2, 6, 40, 2), 1)],
}
CASES = [(spec, shape, axis) for spec, cases in SHAPES.items() for shape, axis in cases]


@pytest.fixture(params=[16, 50, 4096])
def max_row(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sequential_scans, "MAX_ROW", request.param)
    return int(request.param)


def scan_code(name: str, spec: str, shape: tuple[int, ...], dtype: str = "float32") -> tuple[Any, Any]:
    x = oc.placeholder("x", output=list(shape), dtype=dtype)
    return x, getattr(oc, name)(x, spec)


def scanned(backend: str, name: str, spec: str, values: Array) -> Array:
    x, y = scan_code(name, spec, values.shape, str(values.dtype))
    ctx = oc.Context(backend)
    ctx[x] = values
    ctx.compile(y.forward)()
    return np.asarray(ctx[y])


@pytest.mark.parametrize(("spec", "shape", "axis"), CASES)
def test_sums(backend: str, max_row: int, spec: str, shape: tuple[int, ...], axis: int) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype("float32")
    want = np.cumsum(values, axis, dtype="float64")
    np.testing.assert_allclose(scanned(backend, "cumsum", spec, values), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("int32", 0), ("float16", 2e-3)])
def test_types(backend: str, name: str, dtype: str, tolerance: float) -> None:
    if dtype not in resolve(backend).capabilities.precisions:
        pytest.skip(f"{backend} has no {dtype}")
    values = np.random.default_rng(0).integers(-2, 3, (23, 3, 17)).astype(dtype)
    values = values if dtype == "int32" or name != "cumprod" else 1 + values / 100
    want = SCANS[name].accumulate(values if dtype == "int32" else values.astype("float64"), 0)
    got = scanned(backend, name, "ijk => jk", values).astype(want.dtype)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("spec", "shape", "axis"), CASES[::3])
def test_gradients(backend: str, max_row: int, spec: str, shape: tuple[int, ...], axis: int) -> None:
    """The gradient of a sum is a reversed scan, added to the gradient of other uses."""
    rng = np.random.default_rng(0)
    values, weights = (rng.normal(size=shape).astype("float32") for _ in range(2))
    x = oc.param("x", values, output=list(shape))
    loss = (oc.cumsum(x, spec) * weights).sum() + (2 * x).sum()
    ctx = oc.Context(backend)
    ctx.init(loss)
    step = ctx.compile(train.grad_update(loss), keep=[x.grad])
    want = 2 + np.flip(np.cumsum(np.flip(weights.astype("float64"), axis), axis), axis)
    for _ in range(2):
        step()
        np.testing.assert_allclose(np.asarray(ctx[x.grad]), want, rtol=1e-5, atol=1e-5)


def gradient(backend: str, name: str, spec: str, values: Array, weights: Array) -> Array:
    x = oc.param("x", values, output=list(values.shape))
    loss = (getattr(oc, name)(x, spec) * weights).sum() + x.sum()
    ctx = oc.Context(backend)
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[x.grad])()
    return np.asarray(ctx[x.grad])


@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin"])
@pytest.mark.parametrize(("spec", "shape"), [
    ("ij => j", (23, 17)), ("ij => i", (17, 23)), ("ij => i", (3, 23)), ("ijk => ik", (2, 9, 60)),
    ("ijk => ij", (4, 5, 9)), ("ijk => jk", (9, 3, 5)), ("i => ", (20,)),
])  # fmt: skip
def test_gradients_of_products_and_extremes(
    backend: str, max_row: int, name: str, spec: str, shape: tuple[int, ...]
) -> None:
    """With zeros and ties; the backend `numpy` executes the parallel form."""
    rng = np.random.default_rng(0)
    values = rng.integers(-2, 3, shape).astype("float32") / 2 + (1 if name == "cumprod" else 0)
    weights = rng.normal(size=shape).astype("float32")
    got, want = (gradient(system, name, spec, values, weights) for system in (backend, "numpy"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_cells_do_not_depend_on_later_ones(backend: str, value: float) -> None:
    values = np.ones((40, 20), "float32")
    values[20, 3:] = value
    np.testing.assert_array_equal(scanned(backend, "cumsum", "ij => j", values), np.cumsum(values, 0))


def test_previous_values_can_be_read(backend: str) -> None:
    w = oc.param("w", np.ones((3, 20), "float32"), output=[3, 20])
    y, z = oc.cumsum(w, "ij => j"), oc.node("z", init=0.0)
    with oc.cd("previous") as previous:
        z[...] = y
    ctx = oc.Context(backend)
    ctx.init(y)
    with pytest.raises(oc.UninitializedError):
        ctx.compile(oc.seq(previous, y.forward), keep=[y, z])()
    ctx.compile(y.forward, keep=[y])()
    ctx[w] = np.full((3, 20), 2, "float32")
    ctx.compile(oc.seq(previous, y.forward), keep=[y, z])()
    want = np.cumsum(np.ones((3, 20)), 0)
    np.testing.assert_array_equal(np.asarray(ctx[z]), want)
    np.testing.assert_array_equal(np.asarray(ctx[y]), 2 * want)


def test_rows_that_fill_no_vectors_have_no_loops() -> None:
    _, y = scan_code("cumsum", "ij => j", (40, 15))
    assert not any(isinstance(item, ParallelForm) for item in y.forward.elaborate().comp.items)


def test_sequential_form() -> None:
    _, y = scan_code("cumsum", "ij => j", (40, 16))
    code = y.forward.elaborate().comp
    assert any(isinstance(item, ParallelForm) for item in code.items)
    (*_, loops) = sequential_form(code).items
    assert isinstance(loops, Seq) and any(isinstance(item, Loop) for item in loops.items[0].items)


def test_error_grows_with_the_square_root(backend: str) -> None:
    values = np.random.default_rng(0).random((10_000, 16)).astype("float32")
    want = np.cumsum(values, 0, dtype="float64")
    np.testing.assert_allclose(scanned(backend, "cumsum", "ij => j", values), want, rtol=3e-6)


def test_threads_share_the_rows() -> None:
    """Rows of more than the largest size are independent loops; results do not depend on the number of threads."""
    x, y = scan_code("cumsum", "jk => k", (64, 3 * 4096 + 20))
    values = np.random.default_rng(0).random((64, 3 * 4096 + 20)).astype("float32")
    results = []
    for threads in (1, 2, 4):
        ctx = oc.Context("llvm", threads=threads)
        ctx[x] = values
        routine = ctx.compile(y.forward)
        assert "parallel(chunk=1) for k_row" in routine.stages()["parallelize"]
        routine()
        results.append(np.asarray(ctx[y]).copy())
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()
    np.testing.assert_allclose(results[0], np.cumsum(values, 0, dtype="float64"), rtol=1e-6)


def test_in_the_body_of_a_loop(backend: str) -> None:
    x = oc.placeholder("x", batch=[3], output=[20, 16])
    start = oc.placeholder("start", output=[20, 16])
    _, ys = oc.scan(lambda c, row: (c + oc.cumsum(row, "ij => j"),) * 2, start, x)
    ctx = oc.Context(backend)
    values = np.random.default_rng(0).normal(size=(3, 20, 16)).astype("float32")
    ctx[x], ctx[start] = values, np.zeros((20, 16), "float32")
    ctx.compile(ys.forward)()
    np.testing.assert_allclose(np.asarray(ctx[ys]), values.cumsum(1).cumsum(0), rtol=1e-4, atol=1e-5)

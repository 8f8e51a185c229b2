"""Scans at the boundaries of blocks: values and gradients equal those of NumPy; no cell depends on later ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.lang.core.block_scans import BLOCK

Array = np.ndarray[Any, Any]
LENGTHS = (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, BLOCK**2, BLOCK**2 + BLOCK + 3)
AXES = {"ij => i": 1, "ij => j": 0, "ijk => ik": 1}
SCANS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


def shape_of(spec: str, n: int) -> tuple[int, ...]:
    return {"ij => i": (3, n), "ij => j": (n, 5), "ijk => ik": (2, n, 3)}[spec]


def scanned(backend: str, name: str, spec: str, x: Array) -> Array:
    ctx = oc.Context(backend)
    t = oc.placeholder("x", output=list(x.shape), dtype=x.dtype)
    ctx[t] = x
    y = getattr(oc, name)(t, spec)
    ctx.compile(y.forward)()
    return np.asarray(ctx[y])


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("n", LENGTHS)
def test_values(backend: str, name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for spec, axis in AXES.items():
        x = rng.normal(size=shape_of(spec, n)).astype("float32")
        x = 1 + x / 100 if name == "cumprod" else x
        want = SCANS[name].accumulate(x.astype("float64"), axis=axis)
        np.testing.assert_allclose(scanned(backend, name, spec, x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SCANS)
def test_integers(backend: str, name: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 3 * BLOCK + 1)).astype("int32")
    np.testing.assert_array_equal(
        scanned(backend, name, "ij => i", x), SCANS[name].accumulate(x, axis=1, dtype="int32")
    )


@pytest.mark.parametrize("n", LENGTHS)
def test_gradients_of_sums(backend: str, n: int) -> None:
    """The gradient is the sum from the end, and added to what other uses of the operand give."""
    rng = np.random.default_rng(n)
    values, weights = (rng.normal(size=(3, n)).astype("float32") for _ in range(2))
    x = oc.param("x", values, output=[3, n])
    loss = (oc.cumsum(x, "ij => i") * weights).sum() + x.sum()
    ctx = oc.Context(backend)
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[x.grad])()
    want = 1 + np.cumsum(weights[:, ::-1].astype("float64"), 1)[:, ::-1]
    np.testing.assert_allclose(np.asarray(ctx[x.grad]), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("n", [BLOCK, 2 * BLOCK + 3])
def test_cells_do_not_depend_on_later_ones(backend: str, value: float, n: int) -> None:
    x = np.ones((2, n), "float32")
    x[:, n // 2] = value
    for name in ("cumsum", "cumprod"):
        want = SCANS[name].accumulate(x, axis=1)
        np.testing.assert_array_equal(scanned(backend, name, "ij => i", x), want)


def test_narrow_floats(backend: str) -> None:
    """Sums are computed in float32, and rounded once."""
    x = np.full((1, 4 * BLOCK + 1), 1 / 3, "float16")
    want = np.cumsum(x.astype("float32"), 1).astype("float16")
    got = scanned(backend, "cumsum", "ij => i", x)
    np.testing.assert_allclose(got.astype("float32"), want.astype("float32"), rtol=2**-10)

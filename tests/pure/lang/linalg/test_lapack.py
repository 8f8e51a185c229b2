"""The functions on large matrices, which call SciPy, beside NumPy: all orders in memory, and stacks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ocannl.lang.linalg import lapack
from ocannl.lang.linalg.triangular import solve_triangular

pytest.importorskip("scipy.linalg")
Array = np.ndarray[Any, Any]
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}
ORDERS = ("rows", "columns", "neither")


def matrix(random: np.random.Generator, order: str, *shape: int) -> Array:
    """Random numbers whose rows or whose columns are adjacent in memory, or neither."""
    *stack, m, n = shape
    match order:
        case "rows":
            return random.normal(size=shape)
        case "columns":
            return np.swapaxes(random.normal(size=(*stack, n, m)), -1, -2)
        case _:
            return random.normal(size=(*stack, 2 * m, 3 * n))[..., ::2, ::3]


def check(got: Array, want: Array, dtype: str) -> None:
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[dtype] * np.abs(want).max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, repeat=2)])
def test_products(orders: tuple[str, str], dtype: str) -> None:
    random = np.random.default_rng(0)
    for stacks in [((), ()), ((2, 1), (3,)), ((2,), ())]:
        a = matrix(random, orders[0], *stacks[0], 65, 70).astype(dtype, order="K")
        b = matrix(random, orders[1], *stacks[1], 70, 90).astype(dtype, order="K")
        check(lapack.product(a, b), a.astype("float64") @ b, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, repeat=2)])
def test_triangular_systems(orders: tuple[str, str], dtype: str) -> None:
    random = np.random.default_rng(0)
    for stack, lower, transpose, unit in itertools.product([(), (2,)], *[(False, True)] * 3):
        a = (matrix(random, orders[0], *stack, 80, 80) / 80 + 2 * np.eye(80)).astype(dtype, order="K")
        b = matrix(random, orders[1], *stack, 80, 66).astype(dtype, order="K")
        before = a.copy(), b.copy()
        x = solve_triangular(a, b, lower=lower, transpose=transpose, unit_diagonal=unit)
        np.testing.assert_array_equal((a, b)[0], before[0])
        np.testing.assert_array_equal((a, b)[1], before[1])
        full = np.tril(a, -unit) if lower else np.triu(a, unit)
        full = full.astype("float64") + (np.eye(80) if unit else 0)
        check(x, np.linalg.solve(np.swapaxes(full, -1, -2) if transpose else full, b.astype("float64")), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [(70, 70), (2, 90, 70), (2, 70, 90)])
def test_decompositions(sizes: tuple[int, ...], order: str, dtype: str) -> None:
    a = matrix(np.random.default_rng(0), order, *sizes).astype(dtype, order="K")
    q, r = lapack.qr(a)
    check(q @ r, a, dtype)
    check(np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(70), (*sizes[:-2], 70, 70)), dtype)
    assert not np.tril(r, -1).any()
    s = a @ np.swapaxes(a, -1, -2)
    w, v = lapack.eigh(s)
    check((v * w[..., None, :]) @ np.swapaxes(v, -1, -2), s, dtype)
    check(lapack.eigvalsh(s), np.linalg.eigvalsh(s.astype("float64")), dtype)
    with pytest.raises(ValueError, match="infs or NaNs"):
        lapack.eigh(np.full((70, 70), np.nan, dtype))


@pytest.mark.parametrize("kind", ["float16", "int32", "float32", "float64", "complex64"])
def test_products_of_any_type(kind):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(kind) for shape in ((70, 80), (80, 66)))
    np.testing.assert_array_equal(lapack.product(a, b), a @ b)

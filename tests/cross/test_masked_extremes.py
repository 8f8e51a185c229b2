"""Extremes of values that a comparison selects: NaN is never selected, and NaN in the cells of the result stays."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend.registry import resolve

NUMBERS = np.array([0.0, -0.0, 1.0, 3.0, -2.0, np.inf, -np.inf, np.nan], "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_masked_extremes(backend: str, dtype: str) -> None:
    if dtype not in resolve(backend).capabilities.precisions:
        pytest.skip(f"{backend} has no {dtype}")
    rng = np.random.default_rng(0)
    values, bounds = rng.choice(NUMBERS, (40, 33)).astype(dtype), rng.choice(NUMBERS, 40).astype(dtype)
    x, b = (oc.placeholder(name, output=list(a.shape), dtype=dtype) for name, a in (("x", values), ("b", bounds)))
    below, above = (oc.einsum("ij; i => ij", x, b, combine=relation) for relation in ("lt", "gt"))
    largest = oc.where(below, x, -np.inf).max("ij => i")
    smallest = oc.where(above, x, np.inf).min("ij => i")
    of_either = oc.where(below, 7.0, x).max("ij => i")  # NaN is selected
    ctx = oc.Context(backend)
    ctx[x], ctx[b] = values, bounds
    ctx.compile(oc.forward(largest, smallest, of_either))()
    is_below, is_above = values < bounds[:, None], values > bounds[:, None]
    np.testing.assert_array_equal(np.asarray(ctx[largest]), np.where(is_below, values, -np.inf).max(1))
    np.testing.assert_array_equal(np.asarray(ctx[smallest]), np.where(is_above, values, np.inf).min(1))
    np.testing.assert_array_equal(np.asarray(ctx[of_either]), np.where(is_below, 7, values).max(1))

"""Order statistics and largest cells beside stable sorting by NumPy: ties, NaN, wide and narrow types, long rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.lang.ops.array_orders import OfRanks, first_in_order

Array = np.ndarray[Any, Any]
SIZES = ((4, 1), (4, 7), (40, 300), (3, 5000), (0, 6))


def arrays(kind: str, shape: tuple[int, int]) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=shape) * 50
    cells = {"distinct": numbers, "ties": numbers.round(-1), "equal": numbers * 0, "sorted": np.sort(numbers)}
    cells["descending"] = cells["sorted"][:, ::-1]
    if np.dtype(kind).kind == "f":
        cells["nan"] = np.where(rng.random(shape) < 0.1, np.nan, numbers)
        cells["nan only"] = numbers * np.nan
        cells["infinities"] = np.where(rng.random(shape) < 0.5, np.inf * numbers, numbers)
        cells["zeros"] = np.where(rng.random(shape) < 0.5, -0.0, 0.0)
    return {name: (abs(a) if kind == "uint8" else a).astype(kind) for name, a in cells.items()}


def stable_order(cells: Array, descending: bool = False) -> Array:
    if descending:
        return cells.shape[-1] - 1 - np.argsort(cells[:, ::-1], axis=-1, kind="stable")[:, ::-1]
    return np.argsort(cells, axis=-1, kind="stable")


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("shape", SIZES)
def test_orders_of_arrays(kind: str, shape: tuple[int, int]) -> None:
    size = shape[1]
    for name, cells in arrays(kind, shape).items():
        order = stable_order(cells)
        middle, last = size // 2, size - 1
        for ranks in ((0,), (middle,), (last, middle, min(middle + 1, last)), (size // 3, 0, max(0, last - 1))):
            np.testing.assert_array_equal(OfRanks(ranks)(cells), order[:, list(ranks)], name)
        for k in {0, 1, min(8, size), min(300, size), size}:
            for descending in (False, True):
                ids = first_in_order(cells, k, descending)
                np.testing.assert_array_equal(ids, stable_order(cells, descending)[:, :k], f"{name} {k} {descending}")


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_gradients_reach_the_cells_of_the_stable_order(kind: str) -> None:
    for name, cells in arrays(kind, (3, 40)).items():
        if name == "infinities":
            continue  # interpolation between infinities is NaN
        order, want = stable_order(cells), np.zeros(cells.shape)
        for rank, weight in ((9, 1.0), (3, 2 * 0.1), (4, 2 * 0.9)):
            np.put_along_axis(want, order[:, rank, None], weight, -1)
        x = oc.param("x", cells, dtype=kind)
        loss = (oc.kthvalue(x, 10, "ij => i") + 2 * oc.quantile(x, 0.1, "ij => i")).sum()
        ctx = oc.Context("llvm")
        ctx.init(loss)
        ctx.compile(train.grad_update(loss), keep=[x.grad])()
        np.testing.assert_allclose(ctx[x.grad], want, rtol=1e-6, err_msg=name)

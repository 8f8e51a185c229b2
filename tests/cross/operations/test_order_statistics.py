"""Order statistics and largest cells beside stable sorting by NumPy: ties, NaN, wide and narrow types, long rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.lang.ops.array_orders import OfRanks

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
def test_cells_of_ranks(kind: str, shape: tuple[int, int]) -> None:
    middle, last = shape[1] // 2, shape[1] - 1
    for name, cells in arrays(kind, shape).items():
        order = stable_order(cells)
        for ranks in ((0,), (middle,), (last, middle, min(middle + 1, last)), (shape[1] // 3, 0, max(0, last - 1))):
            np.testing.assert_array_equal(OfRanks(ranks)(cells), order[:, list(ranks)], name)


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float8_e5m2", "int32", "uint64", "uint8", "bool"])
@pytest.mark.parametrize("spec", ["ij => i", "ji => i"])
def test_largest_cells_of_long_axes(kind: str, spec: str, backend: str) -> None:
    """Groups of cells are searched: full ones, and a smaller last one; few cells and many."""
    is_narrow, ctx = kind in ("bfloat16", "float8_e5m2"), oc.Context(backend)
    for size, k in ((257, 1), (300, 8), (2048, 8), (3001, 100)):
        for name, cells in arrays("float32" if is_narrow else kind, (3, size)).items():
            x = oc.tensor(cells if spec == "ij => i" else cells.T, dtype=kind)
            rounded = cells.astype(x.dtype.numpy).astype(np.float32) if is_narrow else cells
            for largest in (False, True):
                values, ids = oc.topk(x, k, spec, largest=largest)
                ctx.run(oc.forward(values, ids))
                order = stable_order(rounded, largest)[:, :k]
                selected = np.asarray(ctx[ids]) if spec == "ij => i" else np.asarray(ctx[ids]).T
                np.testing.assert_array_equal(selected, order, f"{name} {size} {k} {largest}")
                selected = np.asarray(ctx[values]) if spec == "ij => i" else np.asarray(ctx[values]).T
                np.testing.assert_array_equal(selected.astype(rounded.dtype), np.take_along_axis(rounded, order, 1))


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

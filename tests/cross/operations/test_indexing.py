"""Gathers, scatters, counts and orders beside NumPy: random shapes, repeated indices, batches and refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc

Array = np.ndarray[Any, Any]
RANDOM_SHAPES = int(os.environ.get("OCANNL_TEST_OPERANDS", "3"))
UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
MODES = ["set", *UFUNCS]


def value(backend: str, t: oc.Tensor, **settings: Any) -> Array:
    with oc.settings(cache=False):
        ctx = oc.Context(backend, **settings)
        ctx.run(t.forward)
        return np.asarray(ctx[t])


def update(target: Array, at: Any, values: Array, mode: str) -> None:
    """Updates cells in order: the last value of a cell wins."""
    if mode == "set":
        selected = np.broadcast_arrays(*at, values)
        for *index, v in zip(*(a.ravel() for a in selected), strict=True):
            target[tuple(index)] = v
    else:
        UFUNCS[mode].at(target, at, values)


@pytest.fixture(params=range(RANDOM_SHAPES))
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


@pytest.mark.parametrize("mode", MODES)
def test_updates_along_an_axis(mode: str, rng: np.random.Generator, backend: str) -> None:
    shape = [int(n) for n in rng.integers(1, 5, size=3)]
    axis, count = int(rng.integers(3)), int(rng.integers(0, 7))
    spec = "abc => " + "abc".replace("abc"[axis], "")
    kind = rng.choice(["float32", "float64", "int32"])
    x, per_index = rng.integers(-4, 5, size=shape).astype(kind), [*shape[:axis], count, *shape[axis + 1 :]]
    ids, values = rng.integers(0, shape[axis], size=per_index), rng.integers(-4, 5, size=per_index).astype(kind)
    want, indices = x.copy(), list(np.indices(per_index))
    indices[axis] = ids
    update(want, tuple(indices), values, mode)
    result = oc.put_along_axis(oc.tensor(x), ids, oc.tensor(values), spec, mode=mode)
    np.testing.assert_array_equal(value(backend, result), want)
    np.testing.assert_array_equal(
        value(backend, oc.take_along_axis(oc.tensor(x), ids, spec)), np.take_along_axis(x, ids, axis)
    )


@pytest.mark.parametrize("mode", MODES)
def test_updates_of_rows_and_at_tuples(mode: str, rng: np.random.Generator, backend: str) -> None:
    n, m, r, s = (int(size) for size in rng.integers(1, 5, size=4))
    x, ids = rng.integers(-4, 5, size=(n, m, r)).astype("float64"), rng.integers(0, (n, m), size=(s, 3, 2))
    values = rng.integers(-4, 5, size=(s, 3, r)).astype("float64")
    want = x.copy()
    update(want, (ids[..., :1], ids[..., 1:], np.arange(r)), values, mode)
    np.testing.assert_array_equal(value(backend, oc.scatter_nd(x, ids, values, mode=mode)), want)
    np.testing.assert_array_equal(value(backend, oc.gather_nd(x, ids)), x[ids[..., 0], ids[..., 1]])
    rows, want = rng.integers(-4, 5, size=(s, 3, m, r)).astype("float64"), x.copy()
    update(want, (ids[..., :1, None], np.arange(m)[:, None], np.arange(r)), rows, mode)
    np.testing.assert_array_equal(value(backend, oc.index_update(x, ids[..., 0], rows, mode=mode)), want)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_updates(mode: str) -> None:
    """Of several writers, the gradient is that of differences: of the last for `set`."""
    rng = np.random.default_rng(1)
    x, values, ids = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), np.array([3, 1, 3, 9])
    indices = ids[:, None] + [[0, -3]]
    oc.testing.gradcheck(lambda x, v: oc.index_update(x, ids, v, mode=mode), x, values)
    oc.testing.gradcheck(lambda x, v: oc.scatter_nd(x, ids[:, None], v, mode=mode), x, values)
    oc.testing.gradcheck(lambda x, v: oc.put_along_axis(x, indices, v, "ij => j", mode=mode), x, values)


def test_gradients_of_products_with_zeros() -> None:
    x, values = np.array([0.0, 2.0, 3.0, 0.0]), np.array([0.0, 5.0, 0.0, 7.0])
    oc.testing.gradcheck(lambda x, v: oc.index_update(x, np.array([0, 1, 1, 3]), v, mode="mul"), x, values)
    oc.testing.gradcheck(lambda v: oc.segment_prod(v, np.array([0, 1, 1, 1]), 2), values)


def test_indices_out_of_range_select_nothing(backend: str) -> None:
    x, ids = np.arange(1.0, 5.0), np.array([-1, 4, 2])
    np.testing.assert_array_equal(value(backend, oc.take_along_axis(x, ids)), [0, 0, 3])
    np.testing.assert_array_equal(value(backend, oc.gather_nd(x, ids[:, None])), [0, 0, 3])
    for mode in MODES:
        want = x.copy()
        update(want, (np.array([2]),), np.array([9.0]), mode)
        np.testing.assert_array_equal(value(backend, oc.index_update(x, ids, 9.0, mode=mode)), want)
    np.testing.assert_array_equal(value(backend, oc.bincount(ids, 4)), [0, 0, 1, 0])
    np.testing.assert_array_equal(value(backend, oc.segment_sum(x[:3], ids, 4)), [0, 0, 3, 0])


def test_batches_have_indices_of_their_own_or_share_them(backend: str) -> None:
    rng = np.random.default_rng(2)
    x, values = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 2, 3))
    per_row, shared = np.array([[3, 0], [1, 1]]), np.array([2, 0])
    xs, rows = oc.tensor(x, batch_axes=1), oc.tensor(values, batch_axes=1)
    for ids, operand in ((np.broadcast_to(shared, (2, 2)), shared), (per_row, oc.tensor(per_row, batch_axes=1))):
        want = x.copy()
        update(want, (np.arange(2)[:, None, None], ids[..., None], np.arange(3)), values, "add")
        np.testing.assert_allclose(value(backend, oc.index_update(xs, operand, rows, mode="add")), want)
        sums = np.zeros((2, 4, 3))
        update(sums, (np.arange(2)[:, None, None], ids[..., None], np.arange(3)), values, "add")
        np.testing.assert_allclose(value(backend, oc.segment_sum(rows, operand, 4)), sums)
    assert oc.topk(oc.tensor(x[..., 0], batch_axes=1), 2)[0].shape == oc.tensor(x[:, :2, 0], batch_axes=1).shape


@pytest.mark.parametrize("threads", [1, 2])
def test_collisions_in_parallel(threads: int) -> None:
    """Many values meet in few cells: none is lost, and the last one wins."""
    rng = np.random.default_rng(3)
    ids, values = rng.integers(0, 5, size=50_000), rng.integers(0, 100, size=50_000).astype("float64")
    counts = value("llvm", oc.bincount(ids, 5), threads=threads)
    np.testing.assert_array_equal(counts, np.bincount(ids))
    sums = value("llvm", oc.segment_sum(values, ids, 5), threads=threads)
    np.testing.assert_array_equal(sums, np.bincount(ids, values))
    last = value("llvm", oc.index_update(np.zeros(5), ids, values), threads=threads)
    np.testing.assert_array_equal(last, [values[np.flatnonzero(ids == n)[-1]] for n in range(5)])


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_histograms_and_searches(kind: str, rng: np.random.Generator, backend: str) -> None:
    x = rng.normal(size=(4, 20)).round(1).astype(kind)
    bins, edges = int(rng.integers(1, 30)), np.sort(rng.normal(size=int(rng.integers(0, 9)))).round(1).astype(kind)
    for bounds in (None, (-1.0, 1.0), (0.5, 0.5)):
        counts = value(backend, oc.histogram(oc.tensor(x), bins, bounds))
        np.testing.assert_array_equal(counts, np.histogram(x, bins, bounds)[0])
    for side, right in (("left", True), ("right", False)):
        want = np.searchsorted(edges, x, side)
        np.testing.assert_array_equal(value(backend, oc.searchsorted(oc.tensor(edges), oc.tensor(x), side)), want)
        np.testing.assert_array_equal(value(backend, oc.digitize(oc.tensor(x), oc.tensor(edges), right)), want)


def test_nan_is_the_greatest(backend: str) -> None:
    x = np.array([np.nan, 1.0, np.inf, np.nan, -1.0])
    np.testing.assert_array_equal(value(backend, oc.sort(x)), np.sort(x))
    np.testing.assert_array_equal(value(backend, oc.argsort(x)), [4, 1, 2, 0, 3])
    np.testing.assert_array_equal(value(backend, oc.argsort(x, descending=True)), [0, 3, 2, 1, 4])
    np.testing.assert_array_equal(value(backend, oc.searchsorted(np.sort(x), x)), np.searchsorted(np.sort(x), x))
    np.testing.assert_array_equal(value(backend, oc.unique(x, 4)), np.unique(x))
    np.testing.assert_array_equal(value(backend, oc.median(x)), np.nan)
    np.testing.assert_array_equal(value(backend, oc.kthvalue(x, 3)), np.inf)


@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_many_ties(largest: bool) -> None:
    """Of equal cells the first ones, also where several are equal to the last one that is selected."""
    x = np.random.default_rng(4).integers(0, 4, size=(7, 100)).astype("float64")
    x[::2, ::9] = np.nan
    for k in (0, 1, 5, 20, 60, 100):
        ids = value("numpy", oc.topk(x, k, "ij => i", largest=largest)[1])
        order = value("numpy", oc.argsort(x, "ij => i", descending=largest))
        np.testing.assert_array_equal(ids, order[:, :k])


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "uint8", "int32"])
def test_topk_of_skewed_ties(kind: str, largest: bool) -> None:
    x = np.random.default_rng(5).integers(0, 200, size=(40, 3000)).astype(kind)
    x[7] = 1
    ids = value("numpy", oc.topk(x, 8, "ij => i", largest=largest)[1])
    order = value("numpy", oc.argsort(x, "ij => i", descending=largest))
    np.testing.assert_array_equal(ids, order[:, :8])


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("size", [1, 40, 256, 257, 600])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint16", "int32", "uint32", "int64"])
def test_topk_of_rows_of_any_size(kind: str, size: int, largest: bool, rng: np.random.Generator) -> None:
    """Beside a stable sort in Python, with extremes of the type, ties, zeros of both signs, and NaN."""
    limits = np.finfo(kind) if kind.startswith("float") else np.iinfo(kind)
    special = [-np.inf, np.inf, np.nan, -0.0, 0.0] if kind.startswith("float") else [0, 1]
    cells = np.array([*special, limits.min, limits.max, 2, 3], kind)
    numbers = rng.integers(0, 100, (3, size)).astype(kind)
    x = np.where(rng.random((3, size)) < 0.3, rng.choice(cells, (3, size)), numbers)

    def first(row: list[float], k: int) -> list[int]:
        keys = [(np.isnan(cell) != largest, 0 if np.isnan(cell) else -cell if largest else cell) for cell in row]
        return sorted(range(size), key=keys.__getitem__)[:k]

    for k in {0, 1, min(8, size), min(20, size), size}:
        values, ids = (value("numpy", result) for result in oc.topk(oc.tensor(x), k, "ij => i", largest=largest))
        want = np.array([first(row, k) for row in x.tolist()], "int32").reshape(3, k)
        np.testing.assert_array_equal(ids, want)
        np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


def test_nonzero_and_unique_are_bounded(backend: str) -> None:
    x = np.array([[0.0, 3.0], [np.nan, 0.0], [3.0, 1.0]])
    np.testing.assert_array_equal(value(backend, oc.nonzero(x, 3)), np.argwhere(x)[:3])
    np.testing.assert_array_equal(value(backend, oc.nonzero(x, 6, fill=9))[4:], [[9, 9], [9, 9]])
    np.testing.assert_array_equal(value(backend, oc.gather_nd(x, oc.nonzero(x, 5))), [3, np.nan, 3, 1, 0])
    np.testing.assert_array_equal(value(backend, oc.unique(np.array([4, 2, 4]), 4)), [2, 4, 4, 4])
    np.testing.assert_array_equal(value(backend, oc.unique(np.array([4, 2, 4]), 4, fill=0)), [2, 4, 0, 0])
    np.testing.assert_array_equal(value(backend, oc.unique(np.array([4, 2, 7]), 2)), [2, 4])


def test_axes_without_cells(backend: str) -> None:
    x, no_ids = np.zeros((2, 0)), np.zeros(0, "int32")
    assert value(backend, oc.sort(x, "ij => i")).shape == (2, 0)
    np.testing.assert_array_equal(value(backend, oc.median(x, "ij => i")), [np.nan, np.nan])
    np.testing.assert_array_equal(value(backend, oc.quantile(x, [0.1], "ij => i")), [[np.nan], [np.nan]])
    np.testing.assert_array_equal(value(backend, oc.segment_sum(np.zeros((0, 2)), no_ids, 2)), np.zeros((2, 2)))
    np.testing.assert_array_equal(value(backend, oc.index_update(np.ones(3), no_ids, np.zeros(0))), np.ones(3))
    np.testing.assert_array_equal(value(backend, oc.bincount(no_ids, 2)), [0, 0])
    np.testing.assert_array_equal(value(backend, oc.searchsorted(np.zeros(0), np.ones(2))), [0, 0])


MATRIX, IDS, FRACTIONS = np.ones((3, 2)), np.array([0, 1, 0]), np.array([0.0, 1.5])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: oc.take_along_axis(MATRIX, MATRIX, "ij => j"), oc.DtypeError, "takes integer indices"),
        (lambda: oc.take_along_axis(MATRIX, IDS), oc.CodeError, "give a spec"),
        (lambda: oc.index_update(MATRIX, FRACTIONS, 1.0), oc.DtypeError, "takes integer indices"),
        (lambda: oc.index_update(MATRIX, IDS, 1.0, mode="sub"), oc.CodeError, "is not one of 'set', 'add'"),
        (lambda: oc.index_update(MATRIX, IDS[:2], np.ones((3, 2))).dims, oc.ShapeError, "is 3"),
        (lambda: oc.gather_nd(MATRIX, oc.placeholder("ids", dtype="int32")), oc.ShapeError, "is unknown"),
        (lambda: oc.segment_sum(MATRIX, IDS, -1), oc.DataError, "number of its elements"),
        (lambda: oc.segment_sum(MATRIX, IDS[:2], 2).dims, oc.ShapeError, "is 3"),
        (lambda: oc.bincount(FRACTIONS, 2), oc.DtypeError, "takes integer indices"),
        (lambda: oc.histogram(MATRIX, 0), oc.DataError, "positive integer"),
        (lambda: oc.histogram(MATRIX, 3, (1.0, 0.0)), oc.DataError, "the smaller one first"),
        (lambda: oc.searchsorted(FRACTIONS, MATRIX, "middle"), oc.CodeError, "is not 'left' or 'right'"),
        (lambda: oc.nonzero(MATRIX, -1), oc.DataError, "number of its elements"),
        (lambda: oc.topk(MATRIX, 1.5, "ij => j"), oc.DataError, "nonnegative integer"),
        (lambda: oc.topk(MATRIX, 4, "ij => j")[0].numpy(), oc.ShapeError, "k is 4, but the axis has 3 cells"),
        (lambda: oc.kthvalue(MATRIX, 4, "ij => j").numpy(), oc.ShapeError, "k is 4, but the axis has 3 cells"),
        (lambda: oc.kthvalue(MATRIX, 0, "ij => j"), oc.DataError, "positive integer"),
        (lambda: oc.quantile(MATRIX, 1.5, "ij => j"), oc.DataError, "from 0 to 1"),
        (lambda: oc.quantile(MATRIX, 0.5, "ij => j", method="cubic"), oc.CodeError, "is not one of 'linear'"),
        (lambda: oc.sort(MATRIX), oc.CodeError, "give a spec"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

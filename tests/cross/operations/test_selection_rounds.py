"""The first cells of short axes, selected in rounds, beside stable sorting by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend.registry import resolve
from ocannl.ir.assign import ParallelForm, host_calls
from ocannl.lang.core import selection_rounds
from ocannl.lang.core.selection_rounds import are_rounds_fast

Array = np.ndarray[Any, Any]
SPECS = {"ai => i": (20, 7), "ia => i": (7, 20), "iaj => ij": (5, 33, 3), "aij => ij": (300, 2, 50)}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0, -2.0, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38,
     np.nextafter(np.float32(1), 0), np.nextafter(np.float32(2), 4)], "float32",
)  # fmt: skip


def any_floats(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of all magnitudes, subnormal ones included, with NaN, infinities and repetitions."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32).view(np.float32)
    return np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), bits)


def first_cells(cells: Array, axis: int, k: int, largest: bool) -> Array:
    """The indices of the first cells of the stable order, with NaN greater than all numbers."""
    if largest:
        last = cells.shape[axis] - 1
        order = last - np.flip(np.argsort(np.flip(cells, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(cells, axis, kind="stable")
    return order.take(range(k), axis)


def check(backend: str, cells: Array, spec: str, k: int) -> None:
    x, ctx = oc.placeholder("x", output=list(cells.shape), dtype=str(cells.dtype)), oc.Context(backend)
    axis = spec.index("a")
    for largest in (False, True):
        values, ids = oc.topk(x, k, spec, largest=largest)
        ctx[x] = cells
        ctx.compile(oc.forward(values, ids))()
        want = first_cells(cells.astype("float32"), axis, k, largest)
        np.testing.assert_array_equal(np.asarray(ctx[ids]), want, f"{spec} {cells.shape} {k} {largest}")
        selected, expected = np.asarray(ctx[values]), np.take_along_axis(cells, want, axis)
        np.testing.assert_array_equal(selected.astype("float32"), expected.astype("float32"))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(("row", "block"), [(64, 64), (64, 1000), (selection_rounds.MAX_ROW_KEYS, 1 << 17)])
def test_all_floats(backend: str, spec: str, k: int, row: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_rounds, "MAX_ROW_KEYS", row)
    monkeypatch.setattr(selection_rounds, "MAX_BLOCK_KEYS", block)
    check(backend, any_floats(np.random.default_rng(k), SPECS[spec]), spec, k)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "uint8", "int16", "bool"])
def test_narrow_types(backend: str, kind: str) -> None:
    if kind not in resolve(backend).capabilities.precisions:
        pytest.skip(f"{backend} has no {kind}")
    numbers = np.random.default_rng(0).normal(size=(40, 70)) * 30
    numbers = numbers < 0 if kind == "bool" else abs(numbers) if kind == "uint8" else numbers
    dtype = oc.placeholder("x", output=[1], dtype=kind).dtype.numpy
    check(backend, numbers.astype(dtype), "ia => i", 9)


@pytest.mark.parametrize(("shape", "k"), [((3, 1), 1), ((1, 9), 9), ((17, 1000), 8), ((1, 1024), 3), ((2, 64), 64)])
def test_sizes(backend: str, shape: tuple[int, int], k: int) -> None:
    """One cell, one row, all cells, and equal cells."""
    cells = np.random.default_rng(0).normal(size=shape).astype("float32")
    for array in (cells, cells.round(), cells * 0):
        check(backend, array, "ia => i", k)


def test_rounds_are_the_sequential_form_of_short_selections() -> None:
    for k, is_fast in ((5, True), (100, False)):
        x = oc.placeholder("x", output=[4, 100])
        _, ids = oc.topk(x, k, "ia => i")
        forms = [item for item in ids.forward.elaborate().comp.items if isinstance(item, ParallelForm)]
        assert bool(forms) is are_rounds_fast(x.node, 1, k) is is_fast
        for form in forms:
            assert list(host_calls(form)) and not list(host_calls(form.sequential))


def test_threads_share_the_rows() -> None:
    x = oc.placeholder("x", output=[4000, 100])
    _, ids = oc.topk(x, 5, "ia => i")
    cells = np.random.default_rng(0).normal(size=(4000, 100)).astype("float32")
    for threads in (1, 2, 4):
        ctx = oc.Context("llvm", threads=threads)
        ctx[x] = cells
        routine = ctx.compile(ids.forward)
        assert "parallel(chunk=" in routine.stages()["parallelize"]
        routine()
        np.testing.assert_array_equal(np.asarray(ctx[ids]), first_cells(cells, 1, 5, True))


def test_previous_result_can_be_read(backend: str) -> None:
    x, previous_ids = oc.placeholder("x", output=[6, 20]), oc.node("z", init=0, dtype="int32")
    _, ids = oc.topk(x, 3, "ia => i")
    with oc.cd("previous") as previous:
        previous_ids[...] = ids
    first, second = np.random.default_rng(0).normal(size=(2, 6, 20)).astype("float32")
    ctx = oc.Context(backend)
    ctx[x] = first
    ctx.compile(ids.forward, keep=[ids])()
    ctx[x] = second
    ctx.compile(oc.seq(previous, ids.forward), keep=[ids, previous_ids])()
    np.testing.assert_array_equal(np.asarray(ctx[previous_ids]), first_cells(first, 1, 3, True))
    np.testing.assert_array_equal(np.asarray(ctx[ids]), first_cells(second, 1, 3, True))

"""Every operation that PyTorch has, too: values and gradients in several types and shapes, axes of one and of no cells
among them, and of numbers that are none.

`ROWS` is all that is compared; `MISSING` says why the other operations are not. Each file `operations/FAMILY_rows.py`
adds a table of rows, and may add to `MISSING`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch_rows
from torch_row import FLOATS, INTEGERS, Row, Shapes, torch
from usable_backends import usable_backends

import ocannl as oc
from ocannl import train
from ocannl.lang.declare.catalogue import catalogue

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")  # PyTorch warns where we both say NaN

FAMILIES = [import_module(path.stem) for path in sorted((Path(__file__).parent / "operations").glob("*_rows.py"))]
FAMILY_ROWS = [row for family in FAMILIES for row in family.ROWS]
ROWS = (*torch_rows.ROWS, *FAMILY_ROWS)
MISSING = [torch_rows.MISSING, *(getattr(family, "MISSING", {}) for family in FAMILIES)]

Array = np.ndarray[Any, Any]
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-9, 3.7, -30.0, 30.0, 1e15])
CLOSE = {"float64": 1e-13, "float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}

Answer = tuple[Any, list[Any]]  # a result, and the gradients of operands


def plain(kind: object) -> Any:
    """The type of NumPy arrays."""
    name = str(kind).removeprefix("torch.")
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def to_torch(array: Array) -> Any:
    exact = array.astype("float64") if array.dtype == ml_dtypes.bfloat16 else array
    return torch.tensor(exact, dtype=getattr(torch, array.dtype.name))


def from_torch(t: Any) -> Array:
    return (t.double() if t.dtype == torch.bfloat16 else t).numpy().astype(plain(t.dtype))


def arriving(dims: tuple[int, ...], kind: object) -> Array:
    """The gradient of a result."""
    return np.random.default_rng(1).normal(size=dims).astype(plain(kind))


def theirs(row: Row, arrays: Sequence[Array], smooth: bool) -> Answer:
    xs = [to_torch(a).requires_grad_(smooth) for a in arrays]
    want = row.theirs(*xs)
    if smooth:
        want.backward(to_torch(arriving(tuple(want.shape), want.dtype)))
    return from_torch(want.detach()), [from_torch(torch.zeros_like(x) if x.grad is None else x.grad) for x in xs]


def ours(row: Row, cases: Sequence[Sequence[Array]], smooth: bool, backend: str) -> list[Answer]:
    """Those of all cases, compiled together."""
    results: list[tuple[oc.Tensor, list[oc.Tensor]]] = []
    code, kept = [], []
    with oc.settings(cache=False):
        ctx = oc.Context(backend)
        for number, arrays in enumerate(cases):
            xs = [oc.param(f"x{number}_{n}", a) if smooth else oc.tensor(a) for n, a in enumerate(arrays)]
            result = row.ours(*xs)
            results.append((result, xs if smooth else []))
            if smooth:
                batch, input = len(result.shape.batch), len(result.shape.input)
                weights = arriving(result.dims, result.dtype)
                loss = (result * oc.tensor(weights, batch_axes=batch, input_axes=input)).sum()
                ctx.init(loss)
            code.append(train.grad_update(loss) if smooth else result.forward)
            kept += [result, *(x.grad for x in results[-1][1])]
        ctx.compile(oc.seq(*code), keep=kept)()
    return [(ctx[result], [ctx[x.grad] for x in xs]) for result, xs in results]


def numbers(row: Row, kind: str, shapes: Shapes) -> list[Array]:
    rng = np.random.default_rng(len(row.name))
    if kind in FLOATS:
        return [rng.uniform(row.low, row.high, shape).astype(plain(kind)) for shape in shapes]
    drawn = [rng.integers(max(0, int(row.low)) if kind == "uint8" else int(row.low), 6, shape) for shape in shapes]
    return [np.where(x == 0, 4, x) if row.low > 0 else x for x in drawn]


def agree(got: Array, want: Array, kind: str, message: str) -> None:
    got, want = got.astype("float64"), want.astype("float64")
    assert got.shape == want.shape, message
    largest = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    close = CLOSE.get(kind, 0)
    np.testing.assert_allclose(got, want, rtol=close, atol=close * largest, err_msg=message)


def compare(row: Row, kind: str, cases: list[list[Array]], backend: str, smooth: bool) -> None:
    for arrays, (got, slopes) in zip(cases, ours(row, cases, smooth, backend), strict=True):
        want, wanted = theirs(row, arrays, smooth)
        description = f"{kind} {[a.shape for a in arrays]}"
        if arrays and want.dtype == arrays[0].dtype and want.dtype.kind not in "iu":
            assert got.dtype == want.dtype, description
        agree(got, want, kind, description)
        for x, slope, right in zip(arrays, slopes, wanted, strict=False):
            agree(slope, right, kind, f"{description}, gradient of {x}")


TYPES = {  # of the operands of all rows, by backend; the rows of families are compared in two types of floats besides
    "numpy": {*FLOATS.split(), *INTEGERS.split()}, "llvm": {"float32", "int32"}, "c": {"float32", "int64"},
}  # fmt: skip
TYPES_OF_FAMILIES = {"float32", "float64"}


def combinations(kinds: str) -> list[tuple[Row, str, str]]:
    """Rows, their types among `kinds`, and backends."""
    families = set(FAMILY_ROWS)
    return [
        (row, kind, backend)
        for row in ROWS
        for kind in row.kinds.split() if kind in kinds.split()
        for backend in usable_backends()
        if kind in TYPES[backend] or (row in families and kind in TYPES_OF_FAMILIES)
    ]  # fmt: skip


def case_id(value: object) -> str:
    return value.name if isinstance(value, Row) else str(value)


@pytest.mark.sample(covering=("row backend", "backend kind"))
@pytest.mark.parametrize(("row", "kind", "backend"), combinations(FLOATS), ids=case_id)
def test_values_and_gradients_are_those_of_torch(row: Row, kind: str, backend: str) -> None:
    compare(row, kind, [numbers(row, kind, shapes) for shapes in row.shapes], backend, row.smooth)


@pytest.mark.sample(covering=("row backend", "row kind"))
@pytest.mark.parametrize(("row", "kind", "backend"), combinations(INTEGERS), ids=case_id)
def test_values_of_integers_are_those_of_torch(row: Row, kind: str, backend: str) -> None:
    compare(row, kind, [numbers(row, kind, shapes) for shapes in row.shapes], backend, smooth=False)


WITH_ODD = [row for row in ROWS if row.but is not None and "float32" in row.kinds and row.shapes[0]]


@pytest.mark.sample(covering=("row",))
@pytest.mark.parametrize("row", WITH_ODD, ids=case_id)
def test_what_is_no_number_goes_where_it_does_in_torch(row: Row, backend: str) -> None:
    """Gradients only of infinities: NaN has no slope."""
    rng = np.random.default_rng(1)
    for smooth in (False, True)[: 1 + row.smooth]:
        compare(row, "float32", [odd_numbers(row, smooth, rng) for _ in range(4)], backend, smooth)


def odd_numbers(row: Row, smooth: bool, rng: np.random.Generator) -> list[Array]:
    drawn = [x for x in ODD if not (smooth and np.isnan(x)) and not any(same(x, y) for y in row.but or ())]
    if row.ties:
        return [rng.choice(drawn, size=shape).astype("float32") for shape in row.shapes[0]]
    pairs = rng.normal(size=(3, *row.shapes[0][0])).ravel()
    (shape,) = row.shapes[0]
    return [rng.permutation([*{*drawn}, *pairs])[: np.prod(shape)].reshape(shape).astype("float32")]


def same(x: float, y: float) -> bool:
    return x == y or (np.isnan(x) and np.isnan(y))


def test_every_operation_is_compared_or_said_to_be_missing() -> None:
    operations = {row.name for row in catalogue()}
    compared = {row.name.split()[0] for row in ROWS}
    missing = {name for table in MISSING for names in table.values() for name in names.split()}
    assert missing <= operations <= compared | missing
    assert not missing & compared

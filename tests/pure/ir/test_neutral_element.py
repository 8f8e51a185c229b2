"""Neutral elements, against reductions in NumPy over every value of the narrow types and samples of the wide ones."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from ocannl.base.errors import CodeError
from ocannl.ir import precision as P
from ocannl.ir.ops import AND, BY_NAME, OPS, OR, Op, neutral_element
from ocannl.ir.precision import PRECISIONS, Family, Precision, integer_limits

MONOIDS = [op for op in OPS if op.monoid]

NEUTRAL = [
    ("add", P.float32, 0), ("mul", P.int32, 1), ("max", P.float16, float("-inf")), ("max", P.int32, -(2**31)),
    ("min", P.uint8, 255), ("max", P.uint64, 0), ("min", P.uint64, 2**64 - 1), ("min", P.int64, 2**63 - 1),
    ("max", P.bool_, 0), ("min", P.bool_, 1), ("and", P.bool_, 1), ("or", P.float32, 0), ("pow", P.float64, 1),
    ("sat01_gate", P.float32, 0.5), ("sub", P.int64, 0), ("max", P.float8_e4m3fn, -448.0),
    ("min", P.float8_e4m3fn, 448.0), ("min", P.float8_e5m2, float("inf")), ("max", P.bfloat16, float("-inf")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize(("name", "precision", "value"), NEUTRAL)
def test_value(name: str, precision: Precision, value: float) -> None:
    neutral = neutral_element(BY_NAME[name], precision)
    assert neutral == value and isinstance(neutral, float) == precision.is_float


def values(precision: Precision) -> np.ndarray:
    """Every value of types of one and two bytes; of wider ones the extremes and random bit patterns."""
    if precision is P.bool_:
        return np.array([False, True])
    count = 1 << 8 * min(precision.nbytes, 2)
    words = f"u{precision.nbytes}"
    if precision.nbytes <= 2:
        return np.arange(count).astype(words).view(precision.numpy)
    bits = np.random.default_rng(0).integers(0, 1 << 8 * precision.nbytes, count, np.uint64, endpoint=False)
    info = ml_dtypes.finfo(precision.numpy) if precision.is_float else np.iinfo(precision.numpy)
    extremes = [info.min, info.max, 0, 1, *([-np.inf, np.inf, np.nan, -0.0] if precision.is_float else [])]
    return np.concatenate([bits.astype(words).view(precision.numpy), np.array(extremes, precision.numpy)])


def comparable(cells: np.ndarray) -> np.ndarray:
    """Floats as float64, in which NumPy compares NaN as equal."""
    return cells if cells.dtype.kind in "biu" else cells.astype(np.float64)


@pytest.mark.parametrize("precision", PRECISIONS, ids=repr)
@pytest.mark.parametrize("op", MONOIDS, ids=repr)
def test_identity(op: Op, precision: Precision) -> None:
    """Combined with any value, the neutral element gives that value; `and` and `or` give its truth value."""
    cells = values(precision)
    wanted = (cells != np.zeros((), cells.dtype)).astype(cells.dtype) if op in (AND, OR) else cells
    neutral = np.asarray(neutral_element(op, precision), precision.numpy)
    assert neutral.item() == neutral_element(op, precision)
    for got in (op.numpy(neutral, cells), op.numpy(cells, neutral)):
        assert got.dtype == precision.numpy
        np.testing.assert_array_equal(comparable(got), comparable(wanted))


@pytest.mark.parametrize("precision", PRECISIONS, ids=repr)
@pytest.mark.parametrize("op", MONOIDS, ids=repr)
def test_empty_reduction(op: Op, precision: Precision) -> None:
    """NumPy defines the value of an empty sum, product or conjunction; that of a maximum is the minimum of the type."""
    assert op.ufunc is not None
    if op.ufunc.identity is not None:
        wanted = op.ufunc.reduce(np.zeros(0, precision.numpy))
    else:
        inverse = np.minimum if op.name == "max" else np.maximum
        cells = values(precision)
        wanted = inverse.reduce(cells[~np.isnan(cells)])
    assert np.asarray(neutral_element(op, precision), precision.numpy) == wanted


@pytest.mark.parametrize("op", [op for op in OPS if op.neutral is None], ids=repr)
def test_operations_without_neutral_element(op: Op) -> None:
    with pytest.raises(CodeError, match=f"`{op}` has no neutral element"):
        neutral_element(op, P.float32)


@pytest.mark.parametrize("precision", PRECISIONS, ids=repr)
def test_infinities(precision: Precision) -> None:
    if precision.is_float:
        assert precision.has_infinities == np.isinf(np.asarray(np.inf).astype(precision.numpy))
        return
    assert not precision.has_infinities
    maximum = (
        1 if precision.family is Family.BOOL else (1 << 8 * precision.nbytes - (precision.family is Family.SIGNED)) - 1
    )
    assert integer_limits(precision) == (-maximum - 1 if precision.family is Family.SIGNED else 0, maximum)

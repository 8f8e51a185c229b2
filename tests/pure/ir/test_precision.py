"""The number types: their names, and how they promote."""

from __future__ import annotations

import pickle
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from ocannl.base.errors import DtypeError
from ocannl.ir import precision as P
from ocannl.ir.precision import PRECISIONS, Precision, precision, promote


@pytest.mark.parametrize("kind", PRECISIONS, ids=repr)
def test_every_name_of_a_type(kind: Precision) -> None:
    for spelling in (kind, kind.name, kind.numpy, kind.numpy.type, kind.numpy.newbyteorder(">")):
        assert precision(spelling) is kind
    assert kind == kind.name == kind.numpy
    assert kind == kind.numpy.type and hash(kind) == hash(kind.numpy)
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert kind.nbytes == kind.numpy.itemsize
    assert kind.is_float == (kind.name.startswith(("float", "bfloat")))


NO_TYPES = [None, "float7", "i4x", object, 3, np.complex64, np.dtype("U3"), [("a", int)], "int4"]


@pytest.mark.parametrize("spelling", NO_TYPES)
def test_what_is_no_type(spelling: object) -> None:
    with pytest.raises(DtypeError) as caught:
        precision(spelling)
    assert str(caught.value) == (
        f"{spelling!r} is not a data type of tensors; there are bool, uint8, uint16, uint32, uint64, int8, int16, "
        "int32, int64, float8_e5m2, float8_e4m3fn, float16, bfloat16, float32, float64"
    )


def test_a_type_differs_from_what_is_no_type() -> None:
    assert P.float32 != "float64" and P.float32 != 3 and P.float32 != "nonsense"


def test_arithmetic_is_at_least_float32() -> None:
    for kind in PRECISIONS:
        assert kind.arithmetic is (P.float32 if kind.is_float and kind.nbytes < 4 else kind)


PROMOTED = """
    bool uint8 uint8      bool int32 int32       bool float16 float16     bool bool bool
    uint8 uint16 uint16   uint8 int32 int32      uint16 int32 int32       uint32 int32 int64
    uint32 uint64 uint64  uint32 int64 int64     uint64 int32 float64     uint64 int64 float64
    int32 int64 int64     int64 float16 float16  int64 bfloat16 bfloat16  uint64 float8_e5m2 float8_e5m2
    float16 bfloat16 float32      float8_e5m2 float8_e4m3fn float16       float8_e4m3fn bfloat16 bfloat16
    float8_e5m2 float16 float16   float16 float32 float32                 float32 float64 float64
    int32 float64 float64   int8 int16 int16         int8 uint8 int16       int16 uint8 int16
    int8 uint16 int32       int16 uint16 int32       int8 uint32 int64      int16 uint64 float64
    int8 bool int8          int16 float8_e4m3fn float8_e4m3fn               int8 float16 float16
"""
ROWS = [tuple(PROMOTED.split()[n : n + 3]) for n in range(0, len(PROMOTED.split()), 3)]


@pytest.mark.parametrize(("left", "right", "result"), ROWS)
def test_promotion(left: str, right: str, result: str) -> None:
    assert promote(precision(left), precision(right)) == result == promote(precision(right), precision(left))


@pytest.mark.parametrize("kind", PRECISIONS, ids=repr)
def test_laws_of_promotion(kind: Precision) -> None:
    assert promote(kind, kind) is kind
    assert promote(kind, P.float64) is P.float64
    for q in PRECISIONS:
        both = promote(kind, q)
        assert promote(q, kind) is both
        assert promote(both, kind) is both


def holds(wide: Precision, kind: Precision) -> bool:
    """That every number of `kind` is a number of `wide`, tried out."""
    info = ml_dtypes.finfo(kind.numpy) if kind.is_float else None
    if info is not None:
        numbers = np.array([info.max, info.smallest_subnormal, 1 + info.eps], kind.numpy)
    elif kind is P.bool_:
        numbers = np.array([0, 1], np.bool_)
    else:
        numbers = np.array([np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max], kind.numpy)
    return bool((numbers.astype(wide.numpy).astype(np.float64) == numbers.astype(np.float64)).all())


@pytest.mark.parametrize(("left", "right"), list(product(PRECISIONS, PRECISIONS)), ids=repr)
def test_promotion_holds_both_when_they_are_alike(left: Precision, right: Precision) -> None:
    wide = promote(left, right)
    if left.is_float == right.is_float and "uint64" not in (left.name, right.name):
        assert holds(wide, left) and holds(wide, right)

"""Precisions: the element types of nodes.

A `Precision` equals its NumPy (or ml_dtypes) counterpart and its own name, so any of the three can be passed as a data
type.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache

import ml_dtypes
import numpy as np

from ocannl.base.errors import DtypeError
from ocannl.base.spelling import PRECISION, refused, with_answers


class Family(Enum):
    BOOL = "bool"
    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float"


@with_answers(PRECISION)
class Precision:
    """An element type; there is a single instance of each."""

    __slots__ = ("_hash", "family", "name", "nbytes", "numpy")

    def __init__(self, name: str, family: Family, numpy: type) -> None:
        self.name = name
        self.family = family
        self.numpy: np.dtype = np.dtype(numpy)
        self.nbytes = self.numpy.itemsize
        self._hash = hash(self.numpy)  # since they compare equal

    __call__ = refused("a data type is no function: write oc.tensor(3, dtype=oc.float32), or x.astype(oc.float32)")

    @property
    def dtype(self) -> np.dtype:
        """The same as `numpy`: by this name NumPy takes a `Precision` as a data type."""
        return self.numpy

    @property
    def is_float(self) -> bool:
        return self.family is Family.FLOAT

    @property
    def arithmetic(self) -> Precision:
        """The type of intermediate results: float32 for narrower floats, otherwise the type itself."""
        return float32 if self.is_float and self.nbytes < 4 else self

    @property
    def has_infinities(self) -> bool:
        return self.is_float and self is not float8_e4m3fn

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Precision):
            return self is other
        try:
            return precision(other) is self
        except DtypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[object], Precision], tuple[str]]:
        return precision, (self.name,)


uint8 = Precision("uint8", Family.UNSIGNED, np.uint8)
uint16 = Precision("uint16", Family.UNSIGNED, np.uint16)
uint32 = Precision("uint32", Family.UNSIGNED, np.uint32)
uint64 = Precision("uint64", Family.UNSIGNED, np.uint64)
int8 = Precision("int8", Family.SIGNED, np.int8)
int16 = Precision("int16", Family.SIGNED, np.int16)
int32 = Precision("int32", Family.SIGNED, np.int32)
int64 = Precision("int64", Family.SIGNED, np.int64)
bool_ = Precision("bool", Family.BOOL, np.bool_)  # stored as uint8
float8_e5m2 = Precision("float8_e5m2", Family.FLOAT, ml_dtypes.float8_e5m2)
float8_e4m3fn = Precision("float8_e4m3fn", Family.FLOAT, ml_dtypes.float8_e4m3fn)
float16 = Precision("float16", Family.FLOAT, np.float16)
bfloat16 = Precision("bfloat16", Family.FLOAT, ml_dtypes.bfloat16)
float32 = Precision("float32", Family.FLOAT, np.float32)
float64 = Precision("float64", Family.FLOAT, np.float64)

PRECISIONS: tuple[Precision, ...] = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float8_e5m2, float8_e4m3fn, float16, bfloat16,
    float32, float64,
)  # fmt: skip

_BY_DTYPE = {p.numpy: p for p in PRECISIONS}
_BY_NAME = {p.name: p for p in PRECISIONS}


def precision(value: object) -> Precision:
    """Converts a `Precision`, its name, or a NumPy or ml_dtypes type. Raises `DtypeError` for anything else."""
    if isinstance(value, Precision):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        # np.dtype(None) would mean float64
        result = None if value is None else _BY_DTYPE.get(np.dtype(value).newbyteorder("="))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        result = None
    if result is None:
        names = ", ".join(p.name for p in PRECISIONS)
        raise DtypeError(f"{value!r} is not a data type of tensors; there are {names}")
    return result


@cache
def integer_limits(precision: Precision) -> tuple[int, int]:
    """The smallest and the largest value of an integer type or of bool."""
    if precision.family is Family.BOOL:
        return 0, 1
    info = np.iinfo(precision.numpy)
    return int(info.min), int(info.max)


@cache
def largest_finite(precision: Precision) -> float:
    """The largest finite value of a float type."""
    return float(ml_dtypes.finfo(precision.numpy).max)  # type: ignore[no-untyped-call]


@cache
def promote(left: Precision, right: Precision) -> Precision:
    """The common type of two operands, as in ml_dtypes and JAX: floats win over integers, and two float types of which
    neither contains the other (float16 and bfloat16, the two float8) promote to the smallest that contains both."""
    if left is right:
        return left
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if left.is_float:
        wide = max(left, right, key=lambda p: p.nbytes)
        if left.nbytes != right.nbytes:
            return wide
        return float32 if left.nbytes == 2 else float16
    if Family.BOOL in (left.family, right.family):
        return right if left.family is Family.BOOL else left
    if left.family is right.family:
        return max(left, right, key=lambda p: p.nbytes)
    signed, unsigned = (left, right) if left.family is Family.SIGNED else (right, left)
    containing = {1: int16, 2: int32, 4: int64, 8: float64}[unsigned.nbytes]
    return containing if signed.nbytes <= unsigned.nbytes else signed

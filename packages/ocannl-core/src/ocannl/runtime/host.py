"""Values from the host on their way into a node: shape and type are checked, and nothing is lost silently."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.base.errors import DataError, DtypeError, ShapeError
from ocannl.ir.precision import PRECISIONS, Family, Precision

Array = np.ndarray[Any, Any]
_OURS = frozenset(p.numpy for p in PRECISIONS)


def for_node(value: object, label: str, dims: tuple[int, ...], precision: Precision) -> Array:
    """A contiguous array of the node's shape and type; what is given, if it is one. One number fills the node; anything
    else has its shape."""
    given = _array(value, label)
    if given.shape == dims:
        return np.asarray(_converted(given, label, precision), order="C")
    if given.ndim:
        raise ShapeError(f"`{label}` has the sizes {dims}, and the array that is to set it {given.shape}")
    return np.full(dims, _converted(given, label, precision))


def _array(value: object, label: str) -> Array:
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            found: Array = np.from_dlpack(value)
        else:
            found = np.asarray(value)
    except (ValueError, TypeError, BufferError) as wrong:
        raise DataError(f"what is to set `{label}` is no array of numbers: {wrong}") from None
    if found.dtype == object:
        raise DataError(f"what is to set `{label}` is no array of numbers: {type(value).__name__}")
    if found.dtype.kind not in "biuf" and found.dtype not in _OURS:
        raise DtypeError(f"`{label}` takes real numbers, not {found.dtype}")
    return found


def _converted(given: Array, label: str, precision: Precision) -> Array:
    target = precision.numpy
    if given.dtype == target:
        return given
    with np.errstate(all="ignore"):
        out = given.astype(target)
        if precision.is_float:
            lost = np.isfinite(given) & ~np.isfinite(out) if _is_float(given) else ~np.isfinite(out)
        else:
            lost = _changed(given, label, precision)
    if np.any(lost):
        worst = given[lost].reshape(-1)[0]
        raise DataError(f"`{label}` is of type {precision}, which has no room for {worst}")
    return out


def _is_float(given: Array) -> bool:
    return given.dtype.kind not in "biu"


def _changed(given: Array, label: str, precision: Precision) -> Array:
    """Where an integer type holds something else than what was given."""
    if _is_float(given):
        wide = given.astype(np.float64)
        if not np.all(wide == np.trunc(wide)):  # NaN is not either
            raise DtypeError(f"`{label}` is of type {precision}, and the values given are not all whole numbers")
        if precision.family is Family.BOOL:
            return np.asarray((wide != 0) & (wide != 1))
        info = np.iinfo(precision.numpy)
        return np.asarray((wide < float(info.min)) | (wide >= float(int(info.max) + 1)))
    if given.dtype.kind == "b":
        return np.zeros(given.shape, bool)
    if precision.family is Family.BOOL:
        return np.asarray((given != 0) & (given != 1))
    info = np.iinfo(precision.numpy)
    low, high = np.iinfo(given.dtype).min, np.iinfo(given.dtype).max
    out_of_room = np.zeros(given.shape, bool)
    if low < info.min:
        out_of_room |= given < info.min
    if high > info.max:
        out_of_room |= given > info.max
    return out_of_room

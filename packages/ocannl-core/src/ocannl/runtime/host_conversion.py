"""Conversion of host values to node arrays, with checks of shape, type and representability."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.base.errors import DataError, DtypeError, ShapeError
from ocannl.ir.precision import PRECISIONS, Family, Precision
from ocannl.lang.core.literals import refuse_masks

Array = np.ndarray[Any, Any]
_SUPPORTED_DTYPES = frozenset(p.numpy for p in PRECISIONS)


def array_for_node(
    value: object, label: str, dims: tuple[int, ...], precision: Precision, where: str = ""
) -> Array:
    """Returns a contiguous array of the node's shape and type, without copying if possible. A scalar fills the node;
    any other value must have its shape. `where` is the line that defines the node.

    Raises: ShapeError, DtypeError, DataError.
    """
    array = _array(value, label)
    if array.shape == dims:
        return np.asarray(_convert(array, label, precision), order="C")
    if array.ndim:
        origin = f", defined in {where}," * bool(where)
        problem = f"`{label}`{origin} has the sizes {dims}, but the assigned array has {array.shape}"
        takes_ids = precision.is_float and array.dtype.kind in "iu" and array.ndim < len(dims)
        raise ShapeError(problem + f"\n  fix  if these are class ids, give `{label}` dtype=oc.int32" * takes_ids)
    return np.full(dims, _convert(array, label, precision))


def is_zero(array: Array) -> bool:
    """Whether all bytes of the array are zero because it repeats one cell, which is zero."""
    is_broadcast_cell = array.size > 0 and not any(array.strides)
    return is_broadcast_cell and not any(array[(0,) * array.ndim].tobytes())


def _array(value: object, label: str) -> Array:
    refuse_masks(value)
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array: Array = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except (ValueError, TypeError, BufferError) as error:
        raise DataError(f"the value assigned to `{label}` is not an array of numbers: {error}") from None
    if array.dtype == object:
        raise DataError(f"the value assigned to `{label}` is not an array of numbers: {type(value).__name__}")
    if array.dtype.kind not in "biuf" and array.dtype not in _SUPPORTED_DTYPES:
        raise DtypeError(f"`{label}` takes real numbers, not {array.dtype}")
    return array


def _convert(array: Array, label: str, precision: Precision) -> Array:
    target = precision.numpy
    if array.dtype == target:
        return array
    with np.errstate(all="ignore"):
        out = array.astype(target)
        if precision.is_float:
            lost = np.isfinite(array) & ~np.isfinite(out) if _is_float(array) else ~np.isfinite(out)
        else:
            lost = _out_of_range(array, label, precision)
    if np.any(lost):
        example = array[lost].reshape(-1)[0]
        raise DataError(f"`{label}` is of type {precision}, which cannot represent {example}")
    return out


def _is_float(array: Array) -> bool:
    return array.dtype.kind not in "biu"


def _out_of_range(array: Array, label: str, precision: Precision) -> Array:
    """Returns a mask of the values that an integer type cannot represent."""
    if _is_float(array):
        wide = array.astype(np.float64)
        if not np.all(wide == np.trunc(wide)):  # false for NaN
            raise DtypeError(f"`{label}` is of type {precision}, but the assigned values are not all integers")
        if precision.family is Family.BOOL:
            return np.asarray((wide != 0) & (wide != 1))
        info = np.iinfo(precision.numpy)
        return np.asarray((wide < float(info.min)) | (wide >= float(int(info.max) + 1)))
    if array.dtype.kind == "b":
        return np.zeros(array.shape, bool)
    if precision.family is Family.BOOL:
        return np.asarray((array != 0) & (array != 1))
    info = np.iinfo(precision.numpy)
    low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
    mask = np.zeros(array.shape, bool)
    if low < info.min:
        mask |= array < info.min
    if high > info.max:
        mask |= array > info.max
    return mask

"""Host values: arrays, nested literals, numbers.

A list is an output axis, a tuple an input axis, `oc.batch(...)` a batch axis; so `[(1, 2, 3), (4, 5, 6)]` maps
3-vectors to 2-vectors.
"""

from __future__ import annotations

import math
import numbers
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.base.errors import ArgumentError, DataError, DtypeError
from ocannl.base.traceback_filtering import public
from ocannl.base.user_functions import call_problem
from ocannl.infer.spec import KINDS, Kind
from ocannl.ir.precision import Precision, precision

_MAX_NESTING = 32


class batch(tuple[Any, ...]):
    """A batch axis of a nested literal: `oc.batch([1, 2], [3, 4])` has two rows."""

    __slots__ = ()

    @public
    def __new__(cls, *items: object) -> batch:
        return super().__new__(cls, items)

    def __repr__(self) -> str:
        return f"batch({', '.join(map(repr, self))})"


def is_bool(value: object) -> bool:
    """Whether the value is a Python or NumPy bool; tensors do not accept these as numbers."""
    return isinstance(value, bool | np.bool_)


def is_number(value: object) -> bool:
    """Whether the value is a real number of Python, `np.float64` included."""
    return isinstance(value, numbers.Real) and not is_bool(value) and (
        isinstance(value, int | float) or not hasattr(value, "__array__")
    )


def python_number(value: Any) -> int | float:
    """The value as a Python int or float. Raises: DataError for an integer beyond all floats."""
    try:
        as_float = float(value)
        return int(value) if isinstance(value, numbers.Integral) else as_float
    except OverflowError:
        raise DataError("a number beyond the range of floats cannot be an element of a tensor") from None


def is_literal(data: object) -> bool:
    return isinstance(data, list | tuple)


def axis_kind(container: object) -> Kind:
    return "batch" if isinstance(container, batch) else "input" if isinstance(container, tuple) else "output"


class HostArray:
    """Contents given by an array, which is cast to the type and shape of the node on upload."""

    __slots__ = ("values",)

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[Any]:
        if self.values.size != math.prod(dims):
            raise DataError(f"{self.values.size} numbers were given for the shape {dims}")
        return np.asarray(self.values, precision.numpy, order="C").reshape(dims)


class Constant:
    """The same number in every cell."""

    __slots__ = ("number",)

    def __init__(self, number: float) -> None:
        self.number = number

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[Any]:
        return np.broadcast_to(np.asarray(self.number, precision.numpy), dims)


class IndexFunction:
    """Contents given by a function of index arrays, one per axis in memory order."""

    __slots__ = ("fn",)

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[Any]:
        arguments = tuple(np.indices(dims)) if dims else ()
        try:
            result = np.asarray(self.fn(*arguments))
        except TypeError:
            problem = call_problem(self.fn, arguments)
            if not problem:
                raise
            text = f"oc.init calls its function with an index array for each axis, here {len(dims)}: {problem}"
            raise ArgumentError(text) from None
        try:
            return np.array(np.broadcast_to(result, dims), precision.numpy, order="C")
        except TypeError:
            raise DataError(f"the function of oc.init returned {result!r}, not numbers"[:200]) from None
        except ValueError:
            raise DataError(f"the function of oc.init returned the shape {result.shape} for the dims {dims}") from None


def refuse_masks(data: object) -> None:
    """Raises DataError for a masked array, whose masked cells would become ordinary numbers."""
    # the maker of the array has imported the class; another thread may be importing it, which takes long
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(data, masked):
        raise DataError("a masked array is no tensor: give array.filled(0), and the mask as a tensor of its own")


def as_array(data: object, dtype: object = None) -> NDArray[Any]:
    """Converts NumPy, DLPack and `__array__` objects to an array, of `dtype` if given."""
    refuse_masks(data)
    if isinstance(data, np.ndarray):
        array = data
    elif hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        array = np.from_dlpack(data)
    else:
        array = np.asarray(data)
    if dtype is not None:
        kind = precision(dtype)
        _check_element_type(array)
        return checked_cast(array, kind)
    _check_element_type(array)
    return array


def _check_element_type(array: NDArray[Any]) -> None:
    if array.dtype == object or (array.dtype.kind in "USVMmc" and array.dtype.name not in _NARROW):
        raise DtypeError(f"an array of {array.dtype} cannot become a tensor: its elements must be real numbers")


_NARROW = ("bfloat16", "float8_e5m2", "float8_e4m3fn")


def checked_cast(array: NDArray[Any], kind: Precision) -> NDArray[Any]:
    """Casts an array. Raises: DtypeError if an integer type cannot hold all values exactly."""
    if array.dtype == kind.numpy:
        return array
    with np.errstate(all="ignore"):
        result = array.astype(kind.numpy)
        if not kind.is_float and kind.name != "bool" and not np.array_equal(result.astype(array.dtype), array):
            raise DtypeError(f"values of {array.dtype} do not all fit {kind}; round or clip them first")
    return result


def to_supported(array: NDArray[Any]) -> tuple[NDArray[Any], Precision]:
    """The array, converted to the nearest supported type, and that type."""
    conversions = {"longdouble": np.float64, "float128": np.float64}
    target = conversions.get(array.dtype.name)
    converted = array if target is None else array.astype(target)
    return converted, precision(converted.dtype)


def parse_literal(data: object) -> tuple[NDArray[Any], dict[Kind, list[int]]]:
    """Converts a nested literal to an array in memory order, and the axis sizes of its rows."""
    levels: list[tuple[Kind, int]] = []
    item = data
    while is_literal(item):
        if len(levels) == _MAX_NESTING:
            raise DataError(f"a literal is nested more than {_MAX_NESTING} levels deep")
        if not item:
            raise DataError("an empty literal does not determine its sizes; give an array of the intended shape")
        kind = axis_kind(item)
        if kind == "batch" and any(k != "batch" for k, _ in levels):
            raise DataError("batch axes of a literal must be outside its output and input axes")
        levels.append((kind, len(item)))  # type: ignore[arg-type]
        item = item[0]  # type: ignore[index]
    flat: list[float] = []
    _flatten(data, levels, 0, flat)
    order = sorted(range(len(levels)), key=lambda n: ("batch", "output", "input").index(levels[n][0]))
    array = np.array(flat, np.float64 if any(isinstance(v, float) for v in flat) else None)
    if array.dtype == object:
        raise DataError("a literal contains integers beyond 64 bits")
    shaped = array.reshape([size for _, size in levels]).transpose(order)
    rows: dict[Kind, list[int]] = {kind: [size for k, size in levels if k == kind] for kind in KINDS}
    return shaped, rows


def _flatten(data: object, levels: list[tuple[Kind, int]], depth: int, out: list[float]) -> None:
    if depth == len(levels):
        if is_bool(data) or not isinstance(data, numbers.Real):
            remedy = "; write oc.stack([x, y]) for a tensor of tensors" if hasattr(data, "dims") else ""
            raise DataError(f"a literal contains numbers at its innermost level; {data!r} is not a number{remedy}")
        out.append(python_number(data))
        return
    kind, size = levels[depth]
    if not is_literal(data):
        raise DataError(f"a literal is ragged: {data!r} stands where {_axis(kind, size)} is expected")
    if axis_kind(data) != kind or len(data) != size:  # type: ignore[arg-type]
        actual = _axis(axis_kind(data), len(data))  # type: ignore[arg-type]
        raise DataError(f"a literal is ragged or mixed: {actual} stands beside {_axis(kind, size)}")
    for item in data:  # type: ignore[attr-defined]
        _flatten(item, levels, depth + 1, out)


def _axis(kind: Kind, size: int) -> str:
    return f"{'a' if kind == 'batch' else 'an'} {kind} axis of {size}"

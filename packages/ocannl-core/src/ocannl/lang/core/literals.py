"""Values from outside: arrays, nested literals, numbers.

A list is an output axis, a tuple an input axis, `oc.batch(...)` a batch axis; so `[(1, 2, 3), (4, 5, 6)]` maps
3-vectors to 2-vectors.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.base.errors import DataError, DtypeError
from ocannl.infer.spec import KINDS, Kind
from ocannl.ir.precision import Precision, precision

_DEEPEST = 32


class batch(tuple[Any, ...]):
    """A batch axis of a nested literal: `oc.batch([1, 2], [3, 4])` has two rows."""

    __slots__ = ()

    def __new__(cls, *items: object) -> batch:
        return super().__new__(cls, items)

    def __repr__(self) -> str:
        return f"batch({', '.join(map(repr, self))})"


def is_truth(value: object) -> bool:
    """Python's and NumPy's True and False, which are no numbers here."""
    return isinstance(value, bool | np.bool_)


def is_number(value: object) -> bool:
    """A number as Python has them; `np.float64` is one of them."""
    return isinstance(value, numbers.Real) and not is_truth(value) and (
        isinstance(value, int | float) or not hasattr(value, "__array__")
    )


def exact(value: Any) -> int | float:
    """A Python number as it is written in code."""
    try:
        as_float = float(value)
        return int(value) if isinstance(value, numbers.Integral) else as_float
    except OverflowError:
        raise DataError("a number beyond all floats cannot be an element of a tensor") from None


def is_literal(data: object) -> bool:
    return isinstance(data, list | tuple)


def kind_of(container: object) -> Kind:
    return "batch" if isinstance(container, batch) else "input" if isinstance(container, tuple) else "output"


class HostArray:
    """Contents given as an array, cast to the node's type and shape when they are uploaded."""

    __slots__ = ("given",)

    def __init__(self, given: NDArray[Any]) -> None:
        self.given = given

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[Any]:
        if self.given.size != math.prod(dims):
            raise DataError(f"{self.given.size} numbers were given for the shape {dims}")
        return np.asarray(self.given, precision.numpy, order="C").reshape(dims)


class Constant:
    """The same number in every cell."""

    __slots__ = ("number",)

    def __init__(self, number: float) -> None:
        self.number = number

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[Any]:
        return np.full(dims, self.number, precision.numpy)


class Function:
    """Contents given by a function of index arrays, one for each axis in memory order."""

    __slots__ = ("fn",)

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> NDArray[Any]:
        got = np.asarray(self.fn(*np.indices(dims)) if dims else self.fn())
        try:
            return np.array(np.broadcast_to(got, dims), precision.numpy, order="C")
        except ValueError:
            raise DataError(f"the function of oc.init gave the shape {got.shape} for the dims {dims}") from None


def array_of(data: object, dtype: object = None) -> NDArray[Any]:
    """NumPy, DLPack and `__array__` objects as an array of a supported type; float16 and friends stay what they are."""
    if isinstance(data, np.ndarray):
        found = data
    elif hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        found = np.from_dlpack(data)
    else:
        found = np.asarray(data)
    if dtype is not None:
        wanted = precision(dtype)
        _refuse_odd(found)
        return cast(found, wanted)
    _refuse_odd(found)
    return found


def _refuse_odd(found: NDArray[Any]) -> None:
    if found.dtype == object or (found.dtype.kind in "USVMmc" and found.dtype.name not in _NARROW):
        raise DtypeError(f"an array of {found.dtype} cannot become a tensor: its elements must be real numbers")


_NARROW = ("bfloat16", "float8_e5m2", "float8_e4m3fn")


def cast(found: NDArray[Any], wanted: Precision) -> NDArray[Any]:
    """To another type, refusing what would lose integers silently."""
    if found.dtype == wanted.numpy:
        return found
    with np.errstate(all="ignore"):
        out = found.astype(wanted.numpy)
        if not wanted.is_float and wanted.name != "bool" and not np.array_equal(out.astype(found.dtype), found):
            raise DtypeError(f"values of {found.dtype} do not all fit {wanted}; round or clip them first")
    return out


def supported(found: NDArray[Any]) -> tuple[NDArray[Any], Precision]:
    """The array in the nearest type tensors have, and that type."""
    widen = {"int8": np.int32, "int16": np.int32, "longdouble": np.float64, "float128": np.float64}
    wider = widen.get(found.dtype.name)
    kept = found if wider is None else found.astype(wider)
    return kept, precision(kept.dtype)


def nested(data: object) -> tuple[NDArray[Any], dict[Kind, list[int]]]:
    """A nested literal as an array in memory order and the sizes of its rows."""
    levels: list[tuple[Kind, int]] = []
    probe = data
    while is_literal(probe):
        if len(levels) == _DEEPEST:
            raise DataError(f"a literal is nested more than {_DEEPEST} levels deep")
        if not probe:
            raise DataError("an empty literal says nothing about its sizes; give an array of the shape you mean")
        kind = kind_of(probe)
        if kind == "batch" and any(k != "batch" for k, _ in levels):
            raise DataError("batch axes of a literal stand outside its output and input axes")
        levels.append((kind, len(probe)))  # type: ignore[arg-type]
        probe = probe[0]  # type: ignore[index]
    flat: list[float] = []
    _flatten(data, levels, 0, flat)
    order = sorted(range(len(levels)), key=lambda n: ("batch", "output", "input").index(levels[n][0]))
    wide = np.array(flat, np.float64 if any(isinstance(v, float) for v in flat) else None)
    if wide.dtype == object:
        raise DataError("a literal holds integers beyond 64 bits")
    shaped = wide.reshape([size for _, size in levels]).transpose(order)
    rows: dict[Kind, list[int]] = {kind: [size for k, size in levels if k == kind] for kind in KINDS}
    return shaped, rows


def _flatten(data: object, levels: list[tuple[Kind, int]], depth: int, out: list[float]) -> None:
    if depth == len(levels):
        if is_truth(data) or not isinstance(data, numbers.Real):
            raise DataError(f"a literal holds numbers at its innermost level; {data!r} is none")
        out.append(exact(data))
        return
    kind, size = levels[depth]
    if not is_literal(data):
        raise DataError(f"a literal is ragged: {data!r} stands where {_axis(kind, size)} is expected")
    if kind_of(data) != kind or len(data) != size:  # type: ignore[arg-type]
        got = _axis(kind_of(data), len(data))  # type: ignore[arg-type]
        raise DataError(f"a literal is ragged or mixed: {got} stands beside {_axis(kind, size)}")
    for item in data:  # type: ignore[attr-defined]
        _flatten(item, levels, depth + 1, out)


def _axis(kind: Kind, size: int) -> str:
    return f"{'a' if kind == 'batch' else 'an'} {kind} axis of {size}"

"""Initializers as tensors, whose shape comes from arguments or is inferred from use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.ir.assign import Number
from ocannl.ir.precision import Precision, precision
from ocannl.ir.tnode import Contents, Role
from ocannl.lang.core.context_vars import site
from ocannl.lang.core.fans import FAN_IN, FAN_OUT
from ocannl.lang.core.leaf import leaf, leaf_name, rows_of
from ocannl.lang.core.literals import HostArray, IndexFunction, is_bool, is_number, python_number
from ocannl.lang.core.random import FanScaled, RandomInitializer
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.index_tensors import check_count

ROWS = ("batch", "input", "output", "b", "i", "o", "shape")


def _initializer(name: str, contents: Contents | None, sizes: dict[str, Any], **options: Any) -> Tensor:
    dtype = sizes.pop("dtype", None)
    leaf_label = leaf_name(sizes.pop("label", None), name, site())
    if unknown := set(sizes) - set(ROWS):
        raise TypeError(f"unexpected keyword arguments {sorted(unknown)}")  # answered by the public function
    rows = rows_of(*(sizes.get(k) for k in ROWS))
    kind = None if dtype is None else precision(dtype)
    role = Role.DATA if contents is not None else Role.RESULT
    return leaf(leaf_label, role, kind, rows, contents=contents, **options)


def full(value: float, **sizes: Any) -> Tensor:
    """A tensor with `value` in every cell. Shapes: from the arguments (`output=[3]`), or from use."""
    if not is_number(value):
        raise DtypeError(f"oc.full takes a number, not {value!r}")
    number = python_number(value)
    return _initializer("full", None, sizes, literal=lambda: Number(number))


class Counting:
    """The contents 0, 1, ..., n-1, created when they are uploaded."""

    def __init__(self, n: int) -> None:
        self._n = n

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> np.ndarray[Any, Any]:
        return HostArray(np.arange(self._n)).array(dims, precision, seed)


def arange(n: int, **sizes: Any) -> Tensor:
    """0, 1, ..., n-1 along one output axis."""
    check_count(n, "arange")
    return _initializer("arange", Counting(n), {"output": [n], "batch": [], "input": [], **sizes})


def init(fn: Callable[..., Any], **sizes: Any) -> Tensor:
    """Values from a function of index arrays, one for each axis in memory order."""
    if not callable(fn):
        raise CodeError(f"oc.init takes a function of index arrays, not {fn!r}")
    return _initializer("init", IndexFunction(fn), sizes)


def kaiming(*, gain: float = 2.0, normal: bool = False, fan_in: int | None = None) -> Tensor:
    """Variance gain / fan_in. Only as the initial value of a parameter.

    The fan-in is the number of products that a cell of the first contraction of the parameter sums, in the block that
    owns the parameter; without a contraction, the size of the input row. Contractions in the block that disagree are an
    error, and `fan_in` overrides them.
    Source: He, Zhang, Ren, Sun 2015.
    """
    fans = {FAN_IN: _checked_fan(FAN_IN, fan_in)}
    return _initializer("kaiming", RandomInitializer(FanScaled(normal, gain, fans)), {})


def xavier(
    *, gain: float = 1.0, normal: bool = False, fan_in: int | None = None, fan_out: int | None = None
) -> Tensor:
    """Variance 2 gain / (fan_in + fan_out). Only as the initial value of a parameter.

    The fan-in is that of `oc.kaiming`, the fan-out the number of cells of the contraction that a cell of the other
    operand enters; without a contraction, the size of the output row.
    Source: Glorot, Bengio 2010.
    """
    fans = {FAN_IN: _checked_fan(FAN_IN, fan_in), FAN_OUT: _checked_fan(FAN_OUT, fan_out)}
    return _initializer("xavier", RandomInitializer(FanScaled(normal, 2.0 * gain, fans)), {})


def _checked_fan(name: str, fan: int | None) -> int | None:
    if fan is not None and (is_bool(fan) or not isinstance(fan, int | np.integer) or fan < 1):
        raise DataError(f"`{name}` is a number of cells, from 1, not {fan!r}")
    return fan

"""Values of a graph while it is imported.

A value is a tensor of ocannl, a constant, a parameter, a list of values (a sequence), or None (an empty optional).
The axes of tensors are the output row, in the order of ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.element_types import PRECISIONS, element_name, element_type_of_array
from ocannl_onnx.errors import UnsupportedModel

Array = np.ndarray[Any, Any]
WIDENED = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
"""Types of tensors that hold constants of 2 and 4 bits."""

MAX_CELLS = 2**26  # of an array that is computed while importing


@dataclass(slots=True, eq=False)
class StaticArray:
    """An array that is known while importing: it may decide sizes, and becomes data when a tensor is needed."""

    array: Array
    name: str = "constant"
    _tensor: oc.Tensor | None = field(default=None, repr=False)

    @property
    def tensor(self) -> oc.Tensor:
        if self._tensor is None:
            array = self.array.astype(WIDENED.get(str(self.array.dtype), self.array.dtype), copy=False)
            check_type(element_type_of_array(array), self.name)
            self._tensor = oc.tensor(np.ascontiguousarray(array).reshape(array.shape), label=label(self.name))
        return self._tensor


@dataclass(slots=True, eq=False)
class Initializer:
    """A floating-point initializer: a parameter, created when an operator uses it as a tensor."""

    array: Array
    name: str
    create: Callable[[], oc.Tensor]
    _tensor: oc.Tensor | None = field(default=None, repr=False)

    @property
    def tensor(self) -> oc.Tensor:
        if self._tensor is None:
            self._tensor = self.create()
        return self._tensor


Value = Any
"""`oc.Tensor`, `StaticArray`, `Initializer`, a list of values, or None."""


def as_tensor(value: Value) -> oc.Tensor:
    return value.tensor if isinstance(value, StaticArray | Initializer) else value


def static_array(value: Value) -> Array | None:
    """The values of a constant or of the initial value of a weight, or None."""
    return value.array if isinstance(value, StaticArray | Initializer) else None


def shape_of(value: Value) -> tuple[int, ...]:
    return tuple(value.array.shape) if isinstance(value, StaticArray | Initializer) else tuple(value.dims)


def check_type(element_type: int, name: str) -> None:
    """Raises: UnsupportedModel for element types that tensors of ocannl cannot have."""
    if element_type not in PRECISIONS:
        raise UnsupportedModel(f"`{name}` has elements of type {element_name(element_type)}, which tensors cannot have")


def check_cells(dims: Sequence[int]) -> None:
    """Raises: UnsupportedModel for arrays that are too large to be computed while importing."""
    if (cells := math.prod(dims)) > MAX_CELLS:
        raise UnsupportedModel(f"an array of {cells} cells, more than {MAX_CELLS}, is computed while importing")


def block_of(name: str) -> str:
    """The path of a block from a value's name: `/encoder/layer.0/Add_output_0` is computed in `encoder.layer.0`."""
    return ".".join(label(part) for part in name.split("/")[:-1] if part)


def label(name: str) -> str:
    """A label of a tensor from any name of ONNX: printable characters without quotes, at most 80."""
    text = "".join(c if c.isalnum() or c in "._" else "_" for c in name.removeprefix("/"))[:80].strip(".")
    return text or "value"

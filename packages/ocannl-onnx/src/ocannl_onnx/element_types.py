"""Element types of ONNX and the data types of ocannl that hold the same values."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

import ocannl as oc

PRECISIONS: dict[int, Any] = {
    onnx.TensorProto.FLOAT: oc.float32,
    onnx.TensorProto.DOUBLE: oc.float64,
    onnx.TensorProto.FLOAT16: oc.float16,
    onnx.TensorProto.BFLOAT16: oc.bfloat16,
    onnx.TensorProto.FLOAT8E4M3FN: oc.float8_e4m3fn,
    onnx.TensorProto.FLOAT8E5M2: oc.float8_e5m2,
    onnx.TensorProto.INT8: oc.int8,
    onnx.TensorProto.INT16: oc.int16,
    onnx.TensorProto.INT32: oc.int32,
    onnx.TensorProto.INT64: oc.int64,
    onnx.TensorProto.UINT8: oc.uint8,
    onnx.TensorProto.UINT16: oc.uint16,
    onnx.TensorProto.UINT32: oc.uint32,
    onnx.TensorProto.UINT64: oc.uint64,
    onnx.TensorProto.BOOL: oc.bool,
}
"""Element types that tensors of ocannl can have. Constants may have any type of ONNX."""

_NUMBERS = {str(precision): number for number, precision in PRECISIONS.items()}


def precision_of(element_type: int) -> Any | None:
    """The data type of ocannl for an element type of ONNX, or None."""
    return PRECISIONS.get(element_type)


def element_type_of(dtype: object) -> int:
    """The element type of ONNX for a data type of ocannl."""
    return _NUMBERS[str(dtype)]


def element_name(element_type: int) -> str:
    """The name of an element type as ONNX spells it, such as `float8e5m2fnuz`."""
    try:
        return str(onnx.TensorProto.DataType.Name(element_type)).lower()
    except ValueError:
        return f"element type {element_type}"


def element_type_of_array(array: Any) -> int:
    """The element type of ONNX for a NumPy array."""
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


@cache
def numpy_type_of(element_type: int) -> np.dtype[Any] | None:
    """The NumPy type for an element type of ONNX; None for the undefined type and for unknown numbers."""
    if element_type not in onnx.TensorProto.DataType.values()[1:]:
        return None
    dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(element_type)
    return dtype

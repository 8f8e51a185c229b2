"""Quantization: integers (or float8) with a scale and a zero point, and products of quantized tensors.

    x = (quantized - zero_point) * scale
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import element_name, precision_of
from ocannl_onnx.layout import expanded, reshaped, sliced, unsqueezed
from ocannl_onnx.operators.elementwise import LARGEST
from ocannl_onnx.operators.linear import matmul
from ocannl_onnx.operators.windows import convolved, with_bias
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value, as_tensor, static_array

FLOATS = "float4, float6 and float8 without infinities"
NARROW = (f"types of 2 and 4 bits, {FLOATS}",)


def saturated(x: oc.Tensor, dtype: Any) -> oc.Tensor:
    """Integers in floating point, converted to an integer type, with those outside its range at its ends."""
    limits = np.iinfo(dtype.numpy)
    return oc.cast(oc.clip(x, float(limits.min), float(limits.max)), dtype)


def quantized(x: oc.Tensor, zero: oc.Tensor | None, dtype: Any) -> oc.Tensor:
    """Multiples of the scale, rounded with halves to even, plus the zero point."""
    rounded = oc.cast(x, oc.float32).round()
    return saturated(rounded if zero is None else rounded + oc.cast(zero, oc.float32), dtype)


def _type(call: NodeCall, element_type: int) -> Any:
    dtype = precision_of(element_type)
    call.require(dtype is not None, f"the type {element_name(element_type)}")
    return dtype


def _parameter(call: NodeCall, position: int) -> oc.Tensor:
    """A scale or zero point, in the shape by which it broadcasts to the operand: of the whole tensor, of each position
    of an axis, or of blocks along an axis."""
    parameter, dims = call.tensor(position), call.shape(0)
    if math.prod(parameter.dims) == 1 and len(parameter.dims) <= 1:
        return reshaped(parameter, ())
    axis, block = call.axis(1), call.attribute("block_size", 0)
    if not block:
        call.require(parameter.dims == (dims[axis],), f"parameters {parameter.dims} for axis {axis} of {dims}")
        return reshaped(parameter, [size if n == axis else 1 for n, size in enumerate(dims)])
    blocks = -(-dims[axis] // block)
    shape = [blocks if n == axis else size for n, size in enumerate(dims)]
    call.require(list(parameter.dims) == shape, f"parameters {parameter.dims} for blocks of {block} cells of {dims}")
    repeated = expanded(unsqueezed(parameter, [axis + 1]), [*shape[: axis + 1], block, *shape[axis + 1 :]])
    merged = reshaped(repeated, [size * block if n == axis else size for n, size in enumerate(shape)])
    return sliced(merged, axis, 0, dims[axis])


@operator("QuantizeLinear", spelling="oc.cast(oc.clip((x / scale).round() + zero_point, low, high), dtype)",
          restrictions=NARROW)  # fmt: skip
def quantize_linear(call: NodeCall) -> Value:
    x, scale = call.tensor(0), _parameter(call, 1)
    output = call.attribute("output_dtype", 0)
    dtype: Any = call.dtype(2) if call.has(2) else _type(call, output) if output else oc.uint8
    precision = call.attribute("precision", 0)
    kind = _type(call, precision) if precision else scale.dtype
    ratio = oc.cast(x, kind) / oc.cast(scale, kind)
    if str(dtype) in LARGEST:
        largest = LARGEST[str(dtype)]
        return oc.cast(oc.clip(ratio, -largest, largest) if call.attribute("saturate", 1) else ratio, dtype)
    return quantized(ratio, _parameter(call, 2) if call.has(2) else None, dtype)


@operator("DequantizeLinear", spelling="(x - zero_point) * scale",
          restrictions=(f"types of 2 and 4 bits other than of constants, {FLOATS}",))  # fmt: skip
def dequantize_linear(call: NodeCall) -> Value:
    x, scale = oc.cast(call.tensor(0), oc.float32), _parameter(call, 1)
    if call.has(2):
        x = x - oc.cast(_parameter(call, 2), oc.float32)
    output = call.attribute("output_dtype", 0)
    return oc.cast(x * oc.cast(scale, oc.float32), _type(call, output) if output else scale.dtype)


@operator("DynamicQuantizeLinear", spelling="the scale and zero point of the range of x, and x quantized by them")
def dynamic_quantize_linear(call: NodeCall) -> tuple[Value, ...]:
    x = call.tensor(0)
    scale, zero = dynamic_range(x)
    return quantized(x / scale, zero, oc.uint8), scale, oc.cast(zero, oc.uint8)


def dynamic_range(x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
    """The scale and zero point by which the range of x, extended to 0, becomes that of uint8; both are float32."""
    low, high = oc.minimum(x.min(), 0.0), oc.maximum(x.max(), 0.0)
    scale = oc.where(oc.eq(low, high), 1.0, (high - low) / 255.0)
    return scale, oc.clip((-low / scale).round(), 0.0, 255.0)


def dynamic_product(
    product: Callable[[oc.Tensor, oc.Tensor], oc.Tensor], x: oc.Tensor, weights: oc.Tensor, scale: oc.Tensor
) -> oc.Tensor:
    """The product of x with integer weights, which have a scale. The operand is rounded to the nearest of 256 values
    between its least and its largest element, as `DynamicQuantizeLinear` chooses them."""
    step, zero = dynamic_range(x)
    codes = oc.cast(quantized(x / step, zero, oc.uint8), oc.int16) - oc.cast(zero, oc.int16)
    total = product(oc.cast(codes, oc.int32), oc.cast(weights, oc.int32))
    return oc.cast(total, oc.float32) * (step * scale)


# --- products ----------------------------------------------------------------------------------------------------


def centered(x: Value, zero: Value, dims: Sequence[int]) -> oc.Tensor:
    """An operand of 8 bits less its zero point (None for 0), which has the given dimensions beside it.

    The difference has at most 16 bits, since products of such operands with sums of 32 bits are faster than those of
    int32. That of constants is computed while importing.
    """
    array, point = static_array(x), static_array(zero)
    if zero is None or (point is not None and not point.any()):
        return as_tensor(x)
    if array is not None and point is not None:
        return oc.tensor(array.astype("int16") - point.astype("int16").reshape(dims))
    return oc.cast(as_tensor(x), oc.int16) - oc.cast(reshaped(as_tensor(zero), dims), oc.int16)


def _centered(call: NodeCall, operand: int, zero: int, axis: int) -> oc.Tensor:
    """An operand of a matrix product; zero points of its rows or columns are along an axis, counted from the end."""
    dims = _aligned_dims(call, zero, len(call.shape(operand)), axis) if call.has(zero) else ()
    return oc.cast(centered(call.value(operand), call.value(zero), dims), oc.int32)


def _aligned(call: NodeCall, position: int, rank: int, axis: int) -> oc.Tensor:
    return reshaped(call.tensor(position), _aligned_dims(call, position, rank, axis))


def _aligned_dims(call: NodeCall, position: int, rank: int, axis: int) -> tuple[int, ...]:
    """The shape of a scale or zero point beside a matrix: of the whole, or a vector of its rows (`axis=-2`) or
    columns."""
    dims = call.shape(position)
    if math.prod(dims) == 1:
        return ()
    return (*dims, 1) if axis == -2 and len(dims) == 1 and rank > 1 else dims


@operator("MatMulInteger", spelling="the product of int32, less the zero points")
def matmul_integer(call: NodeCall) -> Value:
    return matmul(_centered(call, 0, 2, -2), _centered(call, 1, 3, -1))


@operator("QLinearMatMul", spelling="the product of int32, times the ratio of the scales, rounded")
def qlinear_matmul(call: NodeCall) -> Value:
    total = matmul(_centered(call, 0, 2, -2), _centered(call, 3, 5, -1))
    rank = len(total.dims)
    factors = [_aligned(call, position, rank, axis) for position, axis in ((1, -2), (4, -1), (6, -2))]
    return _rescaled(total, factors, _aligned(call, 7, rank, -2), call.dtype(7))


def _rescaled(total: oc.Tensor, scales: Sequence[oc.Tensor], zero: oc.Tensor, dtype: Any) -> oc.Tensor:
    """A sum of products in the scale of the result; `scales` are those of both operands and of the result."""
    x, y, result = scales
    return quantized(oc.cast(total, oc.float32) * oc.cast(x * y / result, oc.float32), zero, dtype)


@operator("QLinearConv", spelling="the convolution of int32, times the ratio of the scales, rounded")
def qlinear_conv(call: NodeCall) -> Value:
    rank = len(call.shape(3))
    total = with_bias(_integer_convolution(call, (0, 2), (3, 5)), call.optional(8))
    scale = reshaped(call.tensor(4), _dims_of_kernels(call, 4, rank - 2))
    scales = [reshaped(call.tensor(1), ()), scale, reshaped(call.tensor(6), ())]
    return _rescaled(total, scales, reshaped(call.tensor(7), ()), call.dtype(7))


@operator("ConvInteger", spelling="oc.einsum of int32, less the zero points")
def conv_integer(call: NodeCall) -> Value:
    return _integer_convolution(call, (0, 2), (1, 3))


def _integer_convolution(call: NodeCall, image: tuple[int, int], kernel: tuple[int, int]) -> oc.Tensor:
    """The convolution of two inputs, each with the position of its zero point."""
    (x, zero), (taps, taps_zero) = image, kernel
    dims = _dims_of_kernels(call, taps_zero, len(call.shape(taps)) - 1) if call.has(taps_zero) else ()
    operands = (
        centered(call.value(x), call.value(zero), ()), centered(call.value(taps), call.value(taps_zero), dims)
    )  # fmt: skip
    return convolved(call, *(oc.cast(operand, oc.int32) for operand in operands))


def _dims_of_kernels(call: NodeCall, position: int, after: int) -> tuple[int, ...]:
    """The shape of a scale or zero point of the whole kernel, or of each output channel, with `after` axes after it."""
    count = math.prod(call.shape(position))
    return () if count == 1 else (count, *(1,) * after)

"""Constants, shapes, and operators that change axes: their order, sizes, and parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import element_type_of_array, precision_of
from ocannl_onnx.layout import (
    along,
    concatenated,
    expanded,
    full,
    padded,
    positions_along,
    python_slice,
    reshaped,
    sliced,
    squeezed,
    transposed,
    unsqueezed,
)
from ocannl_onnx.registry import operator
from ocannl_onnx.values import StaticArray, Value, check_cells

CONSTANT_ATTRIBUTES = {
    "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64,
    "value_string": object, "value_strings": object,
}  # fmt: skip
MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}  # of ONNX, in oc.pad


@operator("Constant", spelling="an array", restrictions=("sparse values",))
def constant(call: NodeCall) -> Value:
    attributes = call.node.attributes
    if "value" in attributes:
        return StaticArray(attributes["value"], call.node.outputs[0])
    for name, dtype in CONSTANT_ATTRIBUTES.items():
        if name in attributes:
            return StaticArray(np.asarray(attributes[name], dtype), call.node.outputs[0])
    call.refuse("sparse values")


@operator("ConstantOfShape", spelling="oc.full(value, ...)")
def constant_of_shape(call: NodeCall) -> Value:
    value = np.asarray(call.attribute("value", np.zeros(1, np.float32))).reshape(())
    dims = call.integers(0)
    dtype: Any = precision_of(element_type_of_array(value))
    call.require(dtype is not None, f"values of type {value.dtype}")
    return full(value.item(), dims, dtype)


@operator("Shape", spelling="x.dims, known while importing")
def shape(call: NodeCall) -> Value:
    dims = call.shape(0)
    bounds = slice(call.attribute("start", 0), call.attribute("end", len(dims)))
    return StaticArray(np.array(dims[bounds], np.int64), call.node.outputs[0])


@operator("Size", spelling="math.prod(x.dims), known while importing")
def size(call: NodeCall) -> Value:
    return StaticArray(np.array(math.prod(call.shape(0)), np.int64), call.node.outputs[0])


@operator("Reshape", spelling="oc.einsum, with axes merged and split")
def reshape(call: NodeCall) -> Value:
    x = call.tensor(0)
    dims = call.integers(1)
    if not call.attribute("allowzero", 0):
        dims = [x.dims[n] if size == 0 else size for n, size in enumerate(dims)]
    if -1 in dims:
        cells = math.prod(size for size in dims if size != -1)
        call.require(cells > 0 and math.prod(x.dims) % cells == 0, f"a shape {dims} for {x.dims}")
        dims[dims.index(-1)] = math.prod(x.dims) // cells
    call.require(min(dims, default=0) >= 0 and math.prod(dims) == math.prod(x.dims), f"a shape {dims} for {x.dims}")
    return reshaped(x, dims)


@operator("Flatten", spelling="oc.einsum, with axes merged")
def flatten(call: NodeCall) -> Value:
    x = call.tensor(0)
    axis = call.attribute("axis", 1)
    axis = axis + len(x.dims) if axis < 0 else axis
    return reshaped(x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:])))


@operator("Squeeze", spelling='oc.einsum("a,0,b => a,b", x)')
def squeeze(call: NodeCall) -> Value:
    x = call.tensor(0)
    axes = call.axes(default=[n for n, size in enumerate(x.dims) if size == 1]) or []
    call.require(all(x.dims[axis] == 1 for axis in axes), f"axes {axes} of {x.dims}")
    return squeezed(x, axes)


@operator("Unsqueeze", spelling='oc.einsum("a,b => a,0,b", x)')
def unsqueeze(call: NodeCall) -> Value:
    x = call.tensor(0)
    axes = call.attribute("axes") if call.version < 13 else call.integers(1)
    rank = len(x.dims) + len(axes)
    return unsqueezed(x, [call.position(axis, rank) for axis in axes])


@operator("Transpose", spelling='oc.einsum("a,b => b,a", x)')
def transpose(call: NodeCall) -> Value:
    x = call.tensor(0)
    return transposed(x, call.attribute("perm", tuple(reversed(range(len(x.dims))))))


@operator("Expand", spelling="oc.einsum, with sizes of new axes")
def expand(call: NodeCall) -> Value:
    x = call.tensor(0)
    return expanded(x, np.broadcast_shapes(x.dims, tuple(call.integers(1))))


@operator("Concat", spelling='oc.concat("a; b => a^b", x, y)')
def concat(call: NodeCall) -> Value:
    return concatenated(call.tensors(), call.axis())


@operator("Split", spelling="oc.concat, with a part of the axis")
def split(call: NodeCall) -> tuple[Value, ...]:
    x = call.tensor(0)
    axis, length = call.axis(0), x.dims[call.axis(0)]
    parts = call.attribute("num_outputs", call.outputs)
    call.require(parts == call.outputs, f"{parts} parts for {call.outputs} outputs")
    if "split" in call.node.attributes or call.has(1):
        sizes = list(call.attribute("split")) if "split" in call.node.attributes else call.integers(1)
    else:
        size = -(-length // parts)
        sizes = [max(0, min(size, length - n * size)) for n in range(parts)]
    call.require(sum(sizes) == length and min(sizes) >= 0, f"parts {sizes} of an axis of {length}")
    return split_parts(x, axis, sizes)


def split_parts(x: oc.Tensor, axis: int, sizes: Sequence[int]) -> tuple[oc.Tensor, ...]:
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return tuple(sliced(x, axis, start, start + size) for start, size in zip(starts, sizes, strict=True))


@operator("Slice", spelling="oc.concat and strides in oc.einsum")
def slice_(call: NodeCall) -> Value:
    x = call.tensor(0)
    if call.version < 10:
        starts, ends = call.attribute("starts"), call.attribute("ends")
        axes, steps = call.attribute("axes", range(len(starts))), [1] * len(starts)
    else:
        starts, ends = call.integers(1), call.integers(2)
        axes = call.integers(3) if call.has(3) else range(len(starts))
        steps = call.integers(4) if call.has(4) else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        position = call.position(axis, len(x.dims))
        stop = None if step < 0 and end < -x.dims[position] else end
        x = python_slice(x, position, slice(start, stop, step))
    return x


@operator("Pad", spelling="oc.pad(x, widths, mode=)")
def pad(call: NodeCall) -> Value:
    x = call.tensor(0)
    pads = list(call.attribute("pads")) if call.version < 11 else call.integers(1)
    mode = call.attribute("mode", "constant")
    call.require(mode in MODES, f"mode {mode!r}")
    value: Any = call.attribute("value", 0.0) if call.version < 11 else 0
    if call.version >= 11 and call.has(2):
        value = call.constant(2).reshape(()).item()
    axes = call.integers(3) if call.has(3) else range(len(x.dims))
    half = len(pads) // 2
    for axis, before, after in zip(axes, pads[:half], pads[half:], strict=True):
        x = _padded_axis(x, call.position(axis, len(x.dims)), before, after, MODES[mode], value)
    return x


def _padded_axis(x: oc.Tensor, axis: int, before: int, after: int, mode: str, value: Any) -> oc.Tensor:
    x = sliced(x, axis, max(0, -before), x.dims[axis] - max(0, -after))
    before, after = max(0, before), max(0, after)
    if not before and not after:
        return x
    if mode != "constant":
        return oc.pad(x, ((before, after),), along(len(x.dims), axis), mode=mode)
    if value == 0:
        return padded(x, axis, before, after)
    margins = [full(value, [count if n == axis else size for n, size in enumerate(x.dims)], x.dtype)
               for count in (before, after)]  # fmt: skip
    return concatenated([margins[0], x, margins[1]], axis)


@operator("Tile", spelling="oc.tile(x, times)")
def tile(call: NodeCall) -> Value:
    x = call.tensor(0)
    times = call.integers(1)
    if call.version < 6:
        call.refuse("version 1")
    dims = [size * count for size, count in zip(x.dims, times, strict=True)]
    if 0 in dims:
        return full(0, dims, x.dtype)
    pairs = [size for count, length in zip(times, x.dims, strict=True) for size in (count, length)]
    ones = [size for length in x.dims for size in (1, length)]
    return reshaped(expanded(reshaped(x, ones), pairs), dims)


@operator("DepthToSpace", spelling="oc.einsum, with axes split and merged")
def depth_to_space(call: NodeCall) -> Value:
    x, block = call.tensor(0), call.attribute("blocksize")
    n, c, h, w = x.dims
    if call.attribute("mode", "DCR") == "DCR":
        x = transposed(reshaped(x, (n, block, block, c // block**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = transposed(reshaped(x, (n, c // block**2, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return reshaped(x, (n, c // block**2, h * block, w * block))


@operator("SpaceToDepth", spelling="oc.einsum, with axes split and merged")
def space_to_depth(call: NodeCall) -> Value:
    x, block = call.tensor(0), call.attribute("blocksize")
    n, c, h, w = x.dims
    x = reshaped(x, (n, c, h // block, block, w // block, block))
    order = (0, 3, 5, 1, 2, 4) if call.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return reshaped(transposed(x, order), (n, c * block**2, h // block, w // block))


@operator("Range", spelling="an array, or start + oc.iota(n) * step")
def range_(call: NodeCall) -> Value:
    numbers: list[Any] = [call.constant(n).reshape(()) for n in range(3)]
    start, limit, step = (number.item() for number in numbers)
    call.require(step != 0, "a step of 0")
    check_cells([math.ceil((limit - start) / step)])
    return StaticArray(np.arange(*numbers, dtype=numbers[0].dtype), call.node.outputs[0])


@operator("EyeLike", spelling="oc.eq of positions")
def eye_like(call: NodeCall) -> Value:
    rows, columns = call.shape(0)
    check_cells([rows, columns])
    dtype: Any = precision_of(call.attribute("dtype")) if "dtype" in call.node.attributes else call.dtype(0)
    return StaticArray(np.eye(rows, columns, call.attribute("k", 0)).astype(dtype.numpy), call.node.outputs[0])


@operator("Trilu", spelling="oc.where of positions")
def trilu(call: NodeCall) -> Value:
    x = call.tensor(0)
    k = int(call.constant(1).reshape(())) if call.has(1) else 0
    rows, columns = x.dims[-2:]
    if 0 in x.dims:
        return x
    check_cells([rows, columns])
    k = max(-rows, min(columns, k))
    mask = ~np.tri(rows, columns, k - 1, bool) if call.attribute("upper", 1) else np.tri(rows, columns, k, bool)
    return oc.where(oc.tensor(mask), x, oc.tensor(np.zeros((), x.dtype.numpy)))


@operator("Identity", spelling="x")
def identity(call: NodeCall) -> Value:
    return call.value(0)


@operator("OneHot", spelling="oc.where(oc.eq(ids, oc.iota(n)), on, off)")
def one_hot(call: NodeCall) -> Value:
    ids, depth, values = call.tensor(0), int(call.constant(1).reshape(-1)[0]), call.tensor(2)
    rank = len(ids.dims) + 1
    axis = call.position(call.attribute("axis", -1), rank)
    positions = positions_along(axis, depth, rank)
    hot = oc.cast(ids, oc.int64)
    hot = oc.where(hot < 0, hot + depth, hot)
    off, on = (oc.einsum(f"{n}, => ", values) for n in range(2))
    return oc.where(oc.eq(unsqueezed(hot, [axis]), positions), on, off)


@operator("ReverseSequence", spelling="oc.take_along_axis with reversed positions")
def reverse_sequence(call: NodeCall) -> Value:
    x, lengths = call.tensor(0), call.tensor(1)
    batch, time = call.attribute("batch_axis", 1), call.attribute("time_axis", 0)
    rank = len(x.dims)
    positions = positions_along(time, x.dims[time], rank)
    limits = reshaped(oc.cast(lengths, oc.int64), [x.dims[batch] if n == batch else 1 for n in range(rank)])
    ids = oc.where(positions < limits, limits - 1 - positions, positions)
    return oc.take_along_axis(x, expanded(ids, x.dims), along(rank, time))

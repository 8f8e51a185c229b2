"""Pooling, the positions of maxima, and unpooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import (
    full,
    padded,
    reduced,
    reshaped,
    row,
)
from ocannl_onnx.operators.windows import Windows, merged, windows_of
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Array, Value


def _pooling_windows(call: NodeCall, x: oc.Tensor) -> Windows:
    windows = windows_of(call, x.dims[2:], call.attribute("kernel_shape"))
    call.require(min(windows.counts) >= 0, f"windows {windows.sizes} for {x.dims}")
    return windows


def _pool_spec(windows: Windows) -> str:
    return f"{row(['n', 'c', *windows.axes])} => {row(['n', 'c', *windows.positions])}"


@operator("AveragePool", spelling='x.sum("n,c,2*o+k => n,c,o") / counts')
def average_pool(call: NodeCall) -> Value:
    x = call.tensor(0)
    windows = _pooling_windows(call, x)
    if 0 in (*x.dims, *windows.counts):
        return full(0, (*x.dims[:2], *windows.counts), x.dtype)
    counts = _counts(windows, bool(call.attribute("count_include_pad", 0)))
    total = x.sum(_pool_spec(windows), **windows.tap_sizes)
    divisor = counts.flat[0] if (counts == counts.flat[0]).all() else counts
    return total / oc.tensor(np.asarray(divisor).astype(x.dtype.numpy))


def _counts(windows: Windows, include_padding: bool) -> Array:
    """The number of cells of each window inside the image, or inside the padded image; at least 1."""
    counts = []
    for axis, size in enumerate(windows.dims):
        cells = windows.cells(axis)
        first = -windows.before[axis] if include_padding else 0
        end = size + windows.after[axis] if include_padding else size
        counts.append(((cells >= first) & (cells < end)).sum(1))
    total: Array = np.maximum(reduce(np.multiply.outer, counts), 1)
    return total


@operator("MaxPool", spelling='x.max("n,c,2*o+k => n,c,o"); indices from oc.argmax')
def max_pool(call: NodeCall) -> Value | tuple[Value, ...]:
    x = call.tensor(0)
    windows = _pooling_windows(call, x)
    if 0 in (*x.dims, *windows.counts):
        dims = (*x.dims[:2], *windows.counts)
        return full(0, dims, x.dtype), full(0, dims, oc.int64)
    y = x.max(_pool_spec(windows), **windows.tap_sizes)
    return (y, _max_indices(call, x, windows)) if call.uses(1) else y


def _max_indices(call: NodeCall, x: oc.Tensor, windows: Windows) -> oc.Tensor:
    """The position of the maximum of each window in the flat operand.

    It is a sum of contributions of the image, of the position of the window, and of the tap.
    """
    for axis, after in enumerate(windows.after):
        low = _lowest(x)
        x = padded(x, axis + 2, windows.before[axis], after + windows.extra[axis], low)
    none = (0,) * len(windows.sizes)
    inner = replace(windows, before=none, after=none, extra=none)
    cells = f"n, c, {', '.join(windows.positions)}"
    spec = f"{cells}, {merged(windows.taps)}"
    taps = oc.einsum(f"{row(['n', 'c', *inner.axes])} => {spec}", x, **windows.tap_sizes)
    chosen = oc.argmax(taps, f"{cells}, k => {cells}")
    strides = _cell_strides(windows.dims, column_major=bool(call.attribute("storage_order", 0)))
    first = [windows.cells(axis)[:, 0] * step for axis, step in enumerate(strides)]
    steps = [np.arange(windows.sizes[axis]) * windows.dilation[axis] * step for axis, step in enumerate(strides)]
    images = np.arange(math.prod(x.dims[:2])).reshape(*x.dims[:2], *(1,) * len(windows.sizes))
    start = images * math.prod(windows.dims) + reduce(np.add.outer, first)
    offsets = reduce(np.add.outer, steps).reshape(-1)
    return oc.take(oc.tensor(offsets.astype(np.int64)), chosen) + oc.tensor(start.astype(np.int64))


def _cell_strides(dims: Sequence[int], *, column_major: bool) -> list[int]:
    """The distance of neighbors along each axis of a flat image."""
    if column_major:
        return [math.prod(dims[:n]) for n in range(len(dims))]
    return [math.prod(dims[n + 1 :]) for n in range(len(dims))]


def _lowest(x: oc.Tensor) -> float:
    """The smallest value of the type of a tensor, which a maximum ignores."""
    dtype = np.dtype(x.dtype.numpy)
    return float(np.iinfo(dtype).min) if dtype.kind in "iu" else -math.inf


@operator("LpPool", spelling='(abs(x)**p).sum("n,c,2*o+k => n,c,o") ** (1 / p)')
def lp_pool(call: NodeCall) -> Value:
    x, p = call.tensor(0), call.attribute("p", 2)
    windows = _pooling_windows(call, x)
    if 0 in (*x.dims, *windows.counts):
        return full(0, (*x.dims[:2], *windows.counts), x.dtype)
    return rooted(powers(x, p).sum(_pool_spec(windows), **windows.tap_sizes), p)


def powers(x: oc.Tensor, p: float) -> oc.Tensor:
    """The powers of absolute values."""
    return oc.abs(x) if p == 1 else x * x if p == 2 else oc.pow(oc.abs(x), float(p))


def rooted(total: oc.Tensor, p: float) -> oc.Tensor:
    """The p-th root of a sum of powers, whose gradient is 0 where the sum is 0."""
    if p == 1:
        return total
    zero = oc.eq(total, 0)
    base = oc.where(zero, 1.0, total)
    return oc.where(zero, 0.0, oc.sqrt(base) if p == 2 else oc.pow(base, 1 / p))


def _global(call: NodeCall, reduction: Any) -> oc.Tensor:
    x = call.tensor(0)
    return reduced(x, range(2, len(x.dims)), reduction, keep=True)


@operator("GlobalAveragePool", spelling='x.mean("n,c,h,w => n,c,0,0")')
def global_average_pool(call: NodeCall) -> Value:
    return _global(call, lambda x, spec: x.mean(spec))


@operator("GlobalMaxPool", spelling='x.max("n,c,h,w => n,c,0,0")')
def global_max_pool(call: NodeCall) -> Value:
    return _global(call, lambda x, spec: x.max(spec))


@operator("GlobalLpPool", spelling='(abs(x)**p).sum("n,c,h,w => n,c,0,0") ** (1 / p)')
def global_lp_pool(call: NodeCall) -> Value:
    p = call.attribute("p", 2)
    return _global(call, lambda x, spec: rooted(powers(x, p).sum(spec), p))


@operator("MaxUnpool", spelling="oc.index_update(zeros, indices, x)")
def max_unpool(call: NodeCall) -> Value:
    x, ids = call.tensor(0), call.tensor(1)
    sizes = call.attribute("kernel_shape")
    count = len(sizes)
    pads, stride = call.attribute("pads", [0] * 2 * count), call.attribute("strides", [1] * count)
    dims = [
        *x.dims[:2],
        *(step * (old - 1) - pads[n] - pads[n + count] + size
          for n, (old, size, step) in enumerate(zip(x.dims[2:], sizes, stride, strict=True))),
    ]  # fmt: skip
    flat = full(0, (math.prod(dims),), x.dtype)
    cells = math.prod(x.dims)
    y = reshaped(oc.index_update(flat, reshaped(ids, (cells,)), reshaped(x, (cells,))), dims)
    target = call.integers(2) if call.has(2) else dims
    call.require(all(new >= old for new, old in zip(target, dims, strict=True)), f"output_shape {target} below {dims}")
    for axis, (old, new) in enumerate(zip(dims, target, strict=True)):
        y = padded(y, axis, 0, new - old)
    return y

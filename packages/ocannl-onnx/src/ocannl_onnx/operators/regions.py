"""Operators that read images at positions: deformable convolutions and regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import (
    concatenated,
    expanded,
    positions_along,
    reshaped,
    unsqueezed,
)
from ocannl_onnx.operators.windows import kernel_windows, with_bias
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Tap:
    """A neighbor of a position along an axis, and its weight."""

    cell: oc.Tensor
    weight: oc.Tensor


def _neighbors(position: oc.Tensor, size: int) -> tuple[Tap, Tap]:
    """The neighbors below and above a position, with the weights of linear interpolation."""
    bounded = oc.clip(position, -2.0, size + 1.0)
    below = oc.floor(bounded)
    share = bounded - below
    cell = oc.cast(oc.stop_gradient(below), oc.int64)
    return Tap(cell, 1.0 - share), Tap(cell + 1, share)


def _cells(x: oc.Tensor, index: Sequence[oc.Tensor]) -> oc.Tensor:
    """The parts of `x` at index tuples, whose components broadcast; 0 where an index is out of range."""
    dims = np.broadcast_shapes(*(part.dims for part in index))
    columns = [unsqueezed(expanded(part, dims), [len(dims)]) for part in index]
    return oc.gather_nd(x, concatenated(columns, len(dims)))


def _counted(weight: oc.Tensor, value: oc.Tensor) -> oc.Tensor:
    """The product, in which a weight of 0 excludes its cell."""
    return oc.where(oc.ne(weight, 0), weight * value, 0)


@operator(
    "DeformConv",
    spelling="oc.gather_nd and oc.einsum with a kernel",
    restrictions=("other than two spatial axes",),
)
def deform_conv(call: NodeCall) -> Value:
    x, kernel, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    call.require(len(x.dims) == 4, f"{len(x.dims) - 2} spatial axes")
    groups, shares = call.attribute("group", 1), call.attribute("offset_group", 1)
    windows = kernel_windows(call, x, kernel)
    n, channels, height, width = x.dims
    call.require(channels == kernel.dims[1] * groups and channels % shares == 0, f"a kernel {kernel.dims} for {x.dims}")
    taps, counts = windows.sizes, windows.counts
    offsets = reshaped(offsets, (n, shares, *taps, 2, *counts))
    bases = [windows.cells(axis).T for axis in range(2)]
    rows, columns = (
        oc.einsum(f"n, g, i, j, {axis}, h, w => n, g, i, j, h, w", offsets)
        + oc.tensor(base.reshape(shape).astype(x.dtype.numpy))
        for axis, (base, shape) in enumerate(
            zip(bases, [(taps[0], 1, counts[0], 1), (1, taps[1], 1, counts[1])], strict=True)
        )
    )
    images = oc.einsum("n, (g c), h, w => n, g, h, w, c", x, g=shares)
    leads = [positions_along(0, n, 6), positions_along(1, shares, 6)]
    corners = [(y, z) for y in _neighbors(rows, height) for z in _neighbors(columns, width)]
    samples = reduce(
        lambda a, b: a + b,
        (_counted(unsqueezed(y.weight * z.weight, [6]), _cells(images, [*leads, y.cell, z.cell])) for y, z in corners),
    )
    if call.has(4):
        samples = samples * unsqueezed(reshaped(call.tensor(4), (n, shares, *taps, *counts)), [6])
    samples = oc.einsum("n, g, i, j, h, w, c => n, (g c), i, j, h, w", samples)
    spec = "n, (g ic), i, j, h, w; (g oc), ic, i, j => n, (g oc), h, w"
    return with_bias(oc.einsum(spec, samples, kernel, g=groups), call.optional(3))


@operator(
    "RoiAlign",
    spelling="oc.gather_nd, and the mean or maximum of samples",
    restrictions=("sampling_ratio=0",),
)
def roi_align(call: NodeCall) -> Value:
    x, rois, batch = call.tensor(0), call.tensor(1), call.tensor(2)
    ratio, mode = call.attribute("sampling_ratio", 0), call.attribute("mode", "avg").lower()
    call.require(ratio > 0, "sampling_ratio=0: the number of samples depends on values")
    call.require(mode in ("avg", "max"), f"mode {mode!r}")
    half_pixel = call.version >= 16 and call.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    counts = call.attribute("output_height", 1), call.attribute("output_width", 1)
    scale = call.attribute("spatial_scale", 1.0)
    axes = []
    for axis, (count, size) in enumerate(zip(counts, x.dims[2:], strict=True)):
        start, end = (
            oc.einsum(f"r, {column} => r,", rois) * scale - (0.5 if half_pixel else 0.0)
            for column in (1 - axis, 3 - axis)
        )
        extent = end - start if half_pixel else oc.maximum(end - start, 1.0)
        fractions = oc.tensor(((np.arange(count * ratio) + 0.5) / (count * ratio)).astype(x.dtype.numpy))
        position = oc.einsum("r, => r, 0", start) + oc.einsum("r,; s, => r, s", extent, fractions)
        inside = oc.and_(oc.ge(position, -1.0), oc.le(position, float(size)))
        shape = (rois.dims[0], *((count * ratio, 1) if axis == 0 else (1, count * ratio)))
        axes.append([
            Tap(reshaped(tap.cell, shape), reshaped(oc.where(inside, tap.weight, 0.0), shape))
            for tap in _neighbors(oc.clip(position, 0.0, size - 1.0), size)
        ])
    images = oc.einsum("n, c, h, w => n, h, w, c", x)
    lead = reshaped(oc.cast(batch, oc.int64), (rois.dims[0], 1, 1))
    values = [
        _counted(unsqueezed(y.weight * z.weight, [3]), _cells(images, [lead, y.cell, z.cell]))
        for y in axes[0] for z in axes[1]
    ]  # fmt: skip
    spec = "r, (i s), (j t), c => r, c, i, j"
    if mode == "avg":
        total = reduce(lambda a, b: a + b, values)
        return oc.einsum(spec, total, s=ratio, t=ratio) / float(ratio * ratio)
    return reduce(oc.maximum, values).max(spec, s=ratio, t=ratio)  # of the weighted corners, as ONNX defines it


@operator("MaxRoiPool", spelling='oc.where(mask, x, -inf).max("r,c,i,h,w => r,c,i,w")')
def max_roi_pool(call: NodeCall) -> Value:
    x, rois = call.tensor(0), call.tensor(1)
    counts, scale = call.attribute("pooled_shape"), call.attribute("spatial_scale", 1.0)
    regions = rois.dims[0]
    y = oc.take(x, oc.cast(oc.einsum("r, 0 => r,", rois), oc.int64))
    empty = None
    for axis, (count, size) in enumerate(zip(counts, x.dims[2:], strict=True)):
        start, end = (_rounded(oc.einsum(f"r, {column} => r, 0", rois) * scale) for column in (2 - axis, 4 - axis))
        share = oc.maximum(end - start + 1.0, 1.0) / float(count)
        steps = oc.tensor(np.arange(count).astype(x.dtype.numpy))
        first = oc.clip(oc.floor(share * steps) + start, 0.0, float(size))
        stop = oc.clip(oc.ceil(share * (steps + 1.0)) + start, 0.0, float(size))
        cells = oc.tensor(np.arange(size).astype(x.dtype.numpy))
        lower, upper = (unsqueezed(bound, [2]) for bound in (first, stop))
        inside = oc.and_(oc.ge(cells, lower), oc.lt(cells, upper))
        shape = (regions, 1, count, size, 1) if axis == 0 else (regions, 1, 1, count, size)
        pooled = "r, c, i, h, w => r, c, i, w" if axis == 0 else "r, c, i, j, w => r, c, i, j"
        y = oc.where(reshaped(inside, shape), unsqueezed(y, [2 if axis == 0 else 3]), -math.inf).max(pooled)
        missing = reshaped(oc.le(stop, first), (regions, 1, count, 1) if axis == 0 else (regions, 1, 1, count))
        empty = missing if empty is None else oc.or_(empty, missing)
    return oc.where(empty, 0.0, y)


def _rounded(x: oc.Tensor) -> oc.Tensor:
    """Rounds halves away from zero."""
    return oc.sign(x) * oc.floor(oc.abs(x) + 0.5)

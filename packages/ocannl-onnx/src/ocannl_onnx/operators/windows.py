"""Operators on windows of spatial axes: convolutions, pooling, unpooling, and regions of interest.

Convolutions are einsums whose spatial axes are windows, channels first as in ONNX:

    n, ic, 2*o0[1,1]+k0, 2*o1[1,1]+k1; oc, ic, k0, k1 => n, oc, o0, o1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import (
    concatenated,
    expanded,
    full,
    padded,
    reduced,
    reshaped,
    row,
    unsqueezed,
)
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Array, Value

SAME = ("SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows along spatial axes, with one number for each axis.

    `extra` are the cells behind the padding that the last window covers in the mode `ceil_mode`.
    """

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    extra: tuple[int, ...]

    @property
    def extents(self) -> list[int]:
        return [gap * (size - 1) + 1 for gap, size in zip(self.dilation, self.sizes, strict=True)]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of windows along each axis."""
        ends = zip(self.dims, self.before, self.after, self.extra, self.extents, self.stride, strict=True)
        return tuple((size + sum(more) - extent) // step + 1 for size, *more, extent, step in ends)

    @property
    def axes(self) -> list[str]:
        """The axes of a windowed operand in a spec."""
        numbers = zip(self.stride, self.before, self.after, self.extra, self.dilation, strict=True)
        return [f"{step}*o{n}[{before},{after + more}]+{gap}*k{n}"
                for n, (step, before, after, more, gap) in enumerate(numbers)]  # fmt: skip

    @property
    def positions(self) -> list[str]:
        return [f"o{n}" for n in range(len(self.sizes))]

    @property
    def taps(self) -> list[str]:
        return [f"k{n}" for n in range(len(self.sizes))]

    @property
    def tap_sizes(self) -> dict[str, Any]:
        return dict(zip(self.taps, self.sizes, strict=True))

    def cells(self, axis: int) -> Array:
        """The cell of each tap of each window along an axis; those of the padding are out of range."""
        starts = np.arange(self.counts[axis]) * self.stride[axis] - self.before[axis]
        return starts[:, None] + np.arange(self.sizes[axis]) * self.dilation[axis]


def windows_of(call: NodeCall, dims: Sequence[int], sizes: Sequence[int]) -> Windows:
    """The windows that the attributes `strides`, `dilations`, `pads`, `auto_pad` and `ceil_mode` describe."""
    count = len(sizes)
    call.require(count == len(dims) > 0, f"windows of {count} axes for {len(dims)} spatial axes")
    stride, dilation = (tuple(call.attribute(name, [1] * count)) for name in ("strides", "dilations"))
    call.require(len(stride) == len(dilation) == count, f"strides {stride} and dilations {dilation} of {count} axes")
    call.require(min(*stride, *dilation, *sizes) > 0, "sizes, strides or dilations below 1")
    windows = Windows(tuple(dims), tuple(sizes), stride, dilation, *((0,) * count,) * 3)
    match call.attribute("auto_pad", "NOTSET"):
        case "NOTSET":
            pads = call.attribute("pads", [0] * 2 * count)
            call.require(len(pads) == 2 * count and min(pads) >= 0, f"pads {pads}")
            windows = replace(windows, before=tuple(pads[:count]), after=tuple(pads[count:]))
            return with_last_windows(windows) if call.attribute("ceil_mode", 0) else windows
        case "VALID":
            return windows
        case "SAME_UPPER" | "SAME_LOWER" as side:
            totals = [
                max(0, (-(-size // step) - 1) * step + extent - size)
                for size, step, extent in zip(dims, stride, windows.extents, strict=True)
            ]
            before, after = halves(totals, larger_first=side == "SAME_LOWER")
            return replace(windows, before=before, after=after)
        case mode:
            call.refuse(f"auto_pad {mode!r}")


def halves(totals: Sequence[int], *, larger_first: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each axis."""
    small, large = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    return (large, small) if larger_first else (small, large)


def with_last_windows(windows: Windows) -> Windows:
    """The windows with those that begin inside the axis or the padding before it, and end behind the padding."""
    extra = []
    numbers = zip(windows.dims, windows.before, windows.after, windows.extents, windows.stride, strict=True)
    for size, before, after, extent, step in numbers:
        length = before + size + after
        count = -(-(length - extent) // step) + 1
        count -= (count - 1) * step >= before + size
        extra.append(max(0, (count - 1) * step + extent - length))
    return replace(windows, extra=tuple(extra))


# --- convolutions ------------------------------------------------------------------------------------------------


def convolved(call: NodeCall, x: oc.Tensor, kernel: oc.Tensor) -> oc.Tensor:
    """The convolution that the attributes describe, without a bias."""
    groups = call.attribute("group", 1)
    channels = kernel.dims[1] * groups
    call.require(
        x.dims[1] == channels and kernel.dims[0] % groups == 0,
        f"a kernel {kernel.dims} in {groups} groups for {x.dims[1]} channels",
    )
    windows = _kernel_windows(call, x, kernel)
    if 0 in (*x.dims, *windows.counts):
        return full(0, (x.dims[0], kernel.dims[0], *windows.counts), x.dtype)
    ic, out = ("ic", "oc") if groups == 1 else ("(g ic)", "(g oc)")
    image, taps = row(["n", ic, *windows.axes]), row([out, "ic", *windows.taps])
    sizes: dict[str, Any] = {} if groups == 1 else {"g": groups}
    return oc.einsum(f"{image}; {taps} => {row(['n', out, *windows.positions])}", x, kernel, **sizes)


def _kernel_windows(call: NodeCall, x: oc.Tensor, kernel: oc.Tensor) -> Windows:
    sizes = kernel.dims[2:]
    kernel_shape = call.attribute("kernel_shape", sizes)
    call.require(tuple(kernel_shape) == tuple(sizes), f"kernel_shape {kernel_shape} of a kernel {kernel.dims}")
    windows = windows_of(call, x.dims[2:], sizes)
    call.require(min(windows.counts) >= 0, f"a kernel {kernel.dims} for {x.dims}")
    return windows


def with_bias(y: oc.Tensor, bias: oc.Tensor | None) -> oc.Tensor:
    """Adds a number to each channel."""
    return y if bias is None else y + reshaped(bias, per_channel(bias.dims[0], len(y.dims)))


def per_channel(channels: int, rank: int) -> list[int]:
    """The shape by which a vector of channels broadcasts to tensors with the channels at axis 1."""
    return [channels] + [1] * (rank - 2)


@operator("Conv", spelling='oc.einsum("n,ic,2*o[1,1]+k; oc,ic,k => n,oc,o", x, kernel) + bias')
def conv(call: NodeCall) -> Value:
    return with_bias(convolved(call, call.tensor(0), call.tensor(1)), call.optional(2))


@operator("ConvInteger", spelling="oc.einsum of int32, less the zero points")
def conv_integer(call: NodeCall) -> Value:
    x, kernel = (oc.cast(call.tensor(n), oc.int32) for n in range(2))
    if call.has(2):
        x = x - reshaped(oc.cast(call.tensor(2), oc.int32), ())
    if call.has(3):
        zero = oc.cast(call.tensor(3), oc.int32)
        kernel = kernel - reshaped(zero, [math.prod(zero.dims)] + [1] * (len(kernel.dims) - 1))
    return convolved(call, x, kernel)


@operator("ConvTranspose", spelling='oc.einsum("n,ic,o; ic,oc,k => n,oc,2*o[1,1]+k", x, kernel) + bias')
def conv_transpose(call: NodeCall) -> Value:
    x, kernel = call.tensor(0), call.tensor(1)
    groups = call.attribute("group", 1)
    call.require(x.dims[1] == kernel.dims[0] and x.dims[1] % groups == 0, f"a kernel {kernel.dims} for {x.dims}")
    windows = _transposed_windows(call, x, kernel)
    if 0 in x.dims:
        return full(0, (x.dims[0], kernel.dims[1] * groups, *windows.dims), x.dtype)
    ic, out = ("ic", "oc") if groups == 1 else ("(g ic)", "(g oc)")
    image, taps = row(["n", ic, *windows.positions]), row([ic, "oc", *windows.taps])
    sizes: dict[str, Any] = {} if groups == 1 else {"g": groups}
    y = oc.einsum(f"{image}; {taps} => {row(['n', out, *windows.axes])}", x, kernel, **sizes)
    return with_bias(y, call.optional(2))


def _transposed_windows(call: NodeCall, x: oc.Tensor, kernel: oc.Tensor) -> Windows:
    """The windows of the result. A padding below 0 after an axis adds cells that no window covers."""
    sizes = tuple(kernel.dims[2:])
    count = len(sizes)
    kernel_shape = call.attribute("kernel_shape", sizes)
    count_fits = count == len(x.dims) - 2 > 0
    call.require(tuple(kernel_shape) == sizes and count_fits, f"kernel_shape {kernel_shape} of {kernel.dims}")
    stride, dilation = (tuple(call.attribute(name, [1] * count)) for name in ("strides", "dilations"))
    windows = Windows(sizes, sizes, stride, dilation, *((0,) * count,) * 3)
    more = call.attribute("output_padding", [0] * count)
    natural = [step * (size - 1) + extent
               for step, size, extent in zip(stride, x.dims[2:], windows.extents, strict=True)]  # fmt: skip
    mode = call.attribute("auto_pad", "NOTSET")
    call.require(mode in ("NOTSET", "VALID", *SAME), f"auto_pad {mode!r}")
    dims = call.attribute("output_shape", None)
    if dims is None and mode in SAME:
        dims = [size * step for size, step in zip(x.dims[2:], stride, strict=True)]
    if dims is not None:
        dims = list(dims)[-count:]
        totals = [max(0, size + cells - new) for size, cells, new in zip(natural, more, dims, strict=True)]
        before, _ = halves(totals, larger_first=mode != "SAME_UPPER")
    else:
        pads = call.attribute("pads", [0] * 2 * count) if mode == "NOTSET" else [0] * 2 * count
        before = tuple(pads[:count])
        dims = [size + cells - first - last
                for size, cells, first, last in zip(natural, more, before, pads[count:], strict=True)]  # fmt: skip
    call.require(min(dims) > 0, f"a result {tuple(dims)}")
    after = tuple(size - first - new for size, first, new in zip(natural, before, dims, strict=True))
    return replace(windows, dims=tuple(dims), before=before, after=after)


@operator("Col2Im", spelling='oc.einsum("n,(c k),o => n,c,2*o[1,1]+k", x)')
def col2im(call: NodeCall) -> Value:
    x, dims, sizes = call.tensor(0), call.integers(1), call.integers(2)
    windows = windows_of(call, dims, sizes)
    counts = windows.counts
    channels = x.dims[1] // math.prod(sizes)
    call.require(x.dims[1:] == (channels * math.prod(sizes), math.prod(counts)), f"columns {x.dims} of images {dims}")
    if 0 in x.dims:
        return full(0, (x.dims[0], channels, *dims), x.dtype)
    after = tuple(  # without the cells that no window reaches, which this adds to the result
        last - (size + first + last - extent) % step
        for size, first, last, extent, step in zip(
            dims, windows.before, windows.after, windows.extents, windows.stride, strict=True
        )
    )
    columns = row(["n", _merged(["c", *windows.taps]), _merged(windows.positions)])
    named = {**windows.tap_sizes, **dict(zip(windows.positions, counts, strict=True))}
    return oc.einsum(f"{columns} => {row(['n', 'c', *replace(windows, after=after).axes])}", x, **named)


def _merged(names: Sequence[str]) -> str:
    """One axis of several names in a spec."""
    return names[0] if len(names) == 1 else f"({' '.join(names)})"


# --- pooling -----------------------------------------------------------------------------------------------------


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
    merged = f"{cells}, {_merged(windows.taps)}"
    taps = oc.einsum(f"{row(['n', 'c', *inner.axes])} => {merged}", x, **windows.tap_sizes)
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


# --- samples at positions ----------------------------------------------------------------------------------------


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


def _positions(count: int, axis: int, rank: int) -> oc.Tensor:
    """The positions along an axis, of size 1 along all further axes."""
    return oc.tensor(np.arange(count).reshape([count if n == axis else 1 for n in range(rank)]))


@operator(
    "DeformConv",
    spelling="oc.gather_nd and oc.einsum with a kernel",
    restrictions=("other than two spatial axes",),
)
def deform_conv(call: NodeCall) -> Value:
    x, kernel, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    call.require(len(x.dims) == 4, f"{len(x.dims) - 2} spatial axes")
    groups, shares = call.attribute("group", 1), call.attribute("offset_group", 1)
    windows = _kernel_windows(call, x, kernel)
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
    leads = [_positions(n, 0, 6), _positions(shares, 1, 6)]
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

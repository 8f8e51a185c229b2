"""Windows along spatial axes, and convolutions.

Convolutions are einsums whose spatial axes are windows, channels first as in ONNX:

    n, ic, 2*o0[1,1]+k0, 2*o1[1,1]+k1; oc, ic, k0, k1 => n, oc, o0, o1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import (
    full,
    reshaped,
    row,
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
    windows = kernel_windows(call, x, kernel)
    if 0 in (*x.dims, *windows.counts):
        return full(0, (x.dims[0], kernel.dims[0], *windows.counts), x.dtype)
    ic, out = ("ic", "oc") if groups == 1 else ("(g ic)", "(g oc)")
    image, taps = row(["n", ic, *windows.axes]), row([out, "ic", *windows.taps])
    sizes: dict[str, Any] = {} if groups == 1 else {"g": groups}
    return oc.einsum(f"{image}; {taps} => {row(['n', out, *windows.positions])}", x, kernel, **sizes)


def kernel_windows(call: NodeCall, x: oc.Tensor, kernel: oc.Tensor) -> Windows:
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
    columns = row(["n", merged(["c", *windows.taps]), merged(windows.positions)])
    named = {**windows.tap_sizes, **dict(zip(windows.positions, counts, strict=True))}
    return oc.einsum(f"{columns} => {row(['n', 'c', *replace(windows, after=after).axes])}", x, **named)


def merged(names: Sequence[str]) -> str:
    """One axis of several names in a spec."""
    return names[0] if len(names) == 1 else f"({' '.join(names)})"

"""Pooling: reductions of windows, in one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ocannl.base.errors import CodeError
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.initializers import full
from ocannl.lang.ops.padding import pad
from ocannl.lang.ops.reductions import max_, mean, sum_
from ocannl.lang.ops.windows import (
    SPATIAL_AXES,
    Padding,
    Sizes,
    margins,
    per_axis,
    register,
    require_numbers,
    spatial_windows,
)


@dataclass(frozen=True, slots=True)
class Pool:
    """The settings of a pooling operation, one for each axis. `more` are the cells after the padded axes that windows
    cover in the mode `ceil_mode`."""

    axes: Sequence[str]
    window: list[int]
    stride: list[int]
    dilation: list[int]
    padding: Padding
    more: list[int]

    @property
    def spec(self) -> str:
        windowed, positions = spatial_windows(self.axes, self.stride, self.dilation, self.padding, self.more)
        return f"...|{windowed}, ..c.. => ...|{positions}, ..c.."

    @property
    def taps(self) -> dict[str, int]:
        return {f"k{axis}": size for axis, size in zip(self.axes, self.window, strict=True)}


def _pool(
    axes: Sequence[str], window: Sizes, stride: Sizes | None, dilation: Sizes, padding: Padding, ceil_mode: bool
) -> Pool:
    """The checked settings. Raises: CodeError."""
    windows = per_axis(axes, "window", window)
    steps = per_axis(axes, "stride", window if stride is None else stride)
    gaps = per_axis(axes, "dilation", dilation)
    more = [0] * len(axes)
    if ceil_mode:
        require_numbers(padding, "ceil_mode")
    for n, (before, after) in enumerate([] if isinstance(padding, str) else margins(axes, padding)):
        extent = gaps[n] * (windows[n] - 1) + 1
        if max(before, after) >= extent:
            raise CodeError(f"`padding` is less than the extent of a window, {extent}, and not {padding!r}")
        if ceil_mode:
            more[n] = min(after + steps[n] - 1, extent - 1) - after  # every window begins inside the axis
    return Pool(axes, windows, steps, gaps, padding, more)


def _max_pooling(axes: Sequence[str]) -> Callable[..., Tensor]:
    def pool(
        x: object, window: Sizes, stride: Sizes | None = None, *, dilation: Sizes = 1, padding: Padding = "none",
        ceil_mode: bool = False,
    ) -> Tensor:  # fmt: skip
        settings = _pool(axes, window, stride, dilation, padding, ceil_mode)
        return max_(x, settings.spec, **settings.taps)

    return pool


def _mean_pooling(axes: Sequence[str]) -> Callable[..., Tensor]:
    def pool(
        x: object, window: Sizes, stride: Sizes | None = None, *, dilation: Sizes = 1, padding: Padding = "none",
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> Tensor:  # fmt: skip
        settings = _pool(axes, window, stride, dilation, padding, ceil_mode)
        if padding == "none" or (count_include_pad and not any(settings.more)):
            return mean(x, settings.spec, **settings.taps)
        return _mean_of_counted(embed(x), settings, count_include_pad)

    return pool


def _mean_of_counted(x: Tensor, pool: Pool, count_include_pad: bool) -> Tensor:
    """The sum over each window divided by the number of its cells inside `x`, or inside the padded `x`."""
    ones = [full(1.0) for _ in pool.axes]
    axes, positions = ", ".join(pool.axes), ", ".join(f"o{axis}" for axis in pool.axes)
    x = einsum(f"...|{axes}, ..c..; {'; '.join(pool.axes)} => ...|{axes}, ..c..", x, *ones)  # which sizes the ones
    total = sum_(x, pool.spec, **pool.taps)
    shares = [1 / _count(pool, n, axis, count_include_pad) for n, axis in enumerate(ones)]
    each_position = "; ".join(f"o{axis}" for axis in pool.axes)
    return einsum(f"...|{positions}, ..c..; {each_position} => ...|{positions}, ..c..", total, *shares)


def _count(pool: Pool, n: int, ones: Tensor, count_include_pad: bool) -> Tensor:
    """The number of cells in each window along an axis."""
    axis, padding = pool.axes[n], pool.padding
    if not isinstance(padding, str):
        padding = [margins(pool.axes, padding)[n]]
        if count_include_pad:
            ones, padding = pad(ones, padding, value=1.0), 0
    windowed, position = spatial_windows([axis], pool.stride[n], pool.dilation[n], padding, [pool.more[n]])
    return sum_(ones, f"{windowed} => {position}", **{f"k{axis}": pool.window[n]})


_POOLING = """The {reduction} of each window of `x`; `stride` is the window size by default.

`window`, `stride` and `dilation` are integers, or one for each axis. With `padding="none"` all windows lie inside `x`,
and its size must be exactly covered by them; with `padding="same"` there is one window for each `stride` cells. A
padding in numbers adds cells: as many at both ends of each axis, or one number or pair (before, after) for each axis;
there are as many windows as fit, and with `ceil_mode` also those that begin inside `x` and end behind it. Cells outside
`x` {outside}.

Shapes: `...|{windowed}, ..c.. => ...|{positions}, ..c..`; `w = stride*(ow - 1) + dilation*(window - 1) + 1`, or
        `w = stride*ow`, or `ow = (before + w + after - dilation*(window - 1) - 1) // stride + 1`, and so on for each
        axis.
Grad:   {grad}.
Raises: CodeError for invalid settings; ShapeError.
"""
_MAX_POOLING = {
    "reduction": "maximum",
    "outside": "are ignored",
    "grad": "`g`, split equally among the cells that attain the maximum",
}
_MEAN_POOLING = {
    "reduction": "mean",
    "outside": "count as zeros, except behind the padding, and are left out without `count_include_pad`",
    "grad": "`g / n` to each of the `n` cells",
}

max_pool1d, max_pool2d, max_pool3d = (
    register("max_pool", axes, _max_pooling(axes), _POOLING, **_MAX_POOLING) for axes in SPATIAL_AXES
)
avg_pool1d, avg_pool2d, avg_pool3d = (
    register("avg_pool", axes, _mean_pooling(axes), _POOLING, **_MEAN_POOLING) for axes in SPATIAL_AXES
)

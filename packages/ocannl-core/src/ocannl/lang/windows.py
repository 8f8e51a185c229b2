"""Convolutions and pooling: einsum specs with windows, in one, two or three dimensions.

    ...|h,w,ic; kh,kw,ic,oc => ...|oh,ow,oc     with   h = stride*oh + dilation*kh   and so on

Axes in space come first and channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.ambient import composite
from ocannl.lang.literals import is_truth
from ocannl.lang.operations import einsum
from ocannl.lang.operators import REGISTRY
from ocannl.lang.reductions import max_, mean
from ocannl.lang.tensor import Tensor

Sizes = int | Sequence[int]

PADDING = {"none": "<", "same": "="}


def _each(axes: Sequence[str], name: str, given: Sizes) -> list[int]:
    """A number for each axis in space, all the same or one by one."""
    sizes: list[Any] = list(given) if isinstance(given, list | tuple) else [given] * len(axes)
    if len(sizes) != len(axes) or any(is_truth(n) or not isinstance(n, int | np.integer) or n < 1 for n in sizes):
        raise CodeError(f"`{name}` is a positive integer, or one for each of {len(axes)} axes, and not {given!r}")
    return sizes


def _windows(axes: Sequence[str], stride: Sizes, dilation: Sizes, padding: str) -> tuple[str, str]:
    """The axes in space: what windows walk over, and where they are."""
    if padding not in PADDING:
        raise CodeError(f"`padding` is {' or '.join(map(repr, PADDING))}, and not {padding!r}")
    walk = zip(axes, _each(axes, "stride", stride), _each(axes, "dilation", dilation), strict=True)
    wide = (f"{step}*o{a}{PADDING[padding]}+{gap}*k{a}" for a, step, gap in walk)
    return ", ".join(wide), ", ".join(f"o{a}" for a in axes)


def _convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: str = "none", groups: int = 1
    ) -> Tensor:
        """The sum of each window of `x` times a kernel; `groups` part the channels into as many convolutions.

            edges = oc.conv2d(images, kernel, padding="same")

        `stride` and `dilation` are integers, or one for each axis. `padding="none"` takes the windows that lie inside,
        and the axis is as long as they need, to the cell; `padding="same"` one window for each `stride` cells.

        Shapes: `...|h, w, ic; kh, kw, ic, oc => ...|oh, ow, oc`, with `d` before `h` in three dimensions, without `h`
                in one; `h = stride*(oh - 1) + dilation*(kh - 1) + 1`, or `h = stride*oh`. With groups, `ic` counts
                the channels of one group in the kernel, and all of them in `x`.
        Grad:   to `x` the transposed convolution of what arrives, to the kernel the windows times what arrives.
        Raises: CodeError for settings that are none; ShapeError.
        """
        walked, places = _windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        return einsum(f"...|{walked}, {ic}; {taps}, ic, {oc} => ...|{places}, {oc}", x, kernel, **names)

    return conv


def _transposed_convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv_transpose(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: str = "none", groups: int = 1
    ) -> Tensor:
        """The kernel times each cell of `x`, summed where these windows overlap: what hands on the gradient of a
        convolution, with the same settings.

        Shapes: `...|oh, ow, ic; kh, kw, ic, oc => ...|h, w, oc`, with `d` before `h` in three dimensions, without `h`
                in one; `h = stride*(oh - 1) + dilation*(kh - 1) + 1`, or with `padding="same"` `h = stride*oh`.
        Grad:   to `x` the convolution of what arrives, to the kernel the cells times what arrives.
        Raises: CodeError for settings that are none; ShapeError.
        """
        walked, places = _windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        return einsum(f"...|{places}, {ic}; {taps}, ic, {oc} => ...|{walked}, {oc}", x, kernel, **names)

    return conv_transpose


def _pooling(axes: Sequence[str], reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def pool(
        x: object, window: Sizes, stride: Sizes | None = None, *, dilation: Sizes = 1, padding: str = "none"
    ) -> Tensor:
        """The largest value, or the mean, of each window of `x`; windows that touch unless `stride` says else.

        `window`, `stride` and `dilation` are integers, or one for each axis. `padding="none"` takes the windows that
        lie inside, and the axis is as long as they need, to the cell; `padding="same"` one window for each `stride`
        cells: what it has outside is never the largest, and counts as zeros in the mean.

        Shapes: `...|h, w, ..c.. => ...|oh, ow, ..c..`, with `d` before `h` in three dimensions, without `h` in one;
                `h = stride*(oh - 1) + dilation*(window - 1) + 1`, or `h = stride*oh`.
        Grad:   to the cells that attain the largest value, in equal shares; of the mean an equal share to each cell.
        Raises: CodeError for settings that are none; ShapeError.
        """
        walked, places = _windows(axes, window if stride is None else stride, dilation, padding)
        taps = {f"k{a}": size for a, size in zip(axes, _each(axes, "window", window), strict=True)}
        return reduce(x, f"...|{walked}, ..c.. => ...|{places}, ..c..", **taps)

    return pool


def _channels(groups: int) -> tuple[str, str, dict[str, Any]]:
    """Those of the operand and of the result; those of a group see each other alone."""
    if is_truth(groups) or not isinstance(groups, int | np.integer) or groups < 1:
        raise CodeError(f"`groups` is a positive integer, and not {groups!r}")
    return ("ic", "oc", {}) if groups == 1 else ("(groups ic)", "(groups oc)", {"groups": int(groups)})


def _named(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    REGISTRY[name] = composite(function)
    return REGISTRY[name]


_SPACES = (("w",), ("h", "w"), ("d", "h", "w"))

conv1d, conv2d, conv3d = (_named(f"conv{len(axes)}d", _convolution(axes)) for axes in _SPACES)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _named(f"conv_transpose{len(axes)}d", _transposed_convolution(axes)) for axes in _SPACES
)
max_pool1d, max_pool2d, max_pool3d = (_named(f"max_pool{len(axes)}d", _pooling(axes, max_)) for axes in _SPACES)
avg_pool1d, avg_pool2d, avg_pool3d = (_named(f"avg_pool{len(axes)}d", _pooling(axes, mean)) for axes in _SPACES)

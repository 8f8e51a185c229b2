"""Convolutions and pooling: einsum specs with windows, in one, two or three dimensions.

    ...|h,w,ic; kh,kw,ic,oc => ...|oh,ow,oc     with   h = stride*oh + dilation*kh   and so on

Axes in space come first and channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_truth
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.reductions import max_, mean

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
        walked, places = _windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        return einsum(f"...|{walked}, {ic}; {taps}, ic, {oc} => ...|{places}, {oc}", x, kernel, **names)

    return conv


def _transposed_convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv_transpose(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: str = "none", groups: int = 1
    ) -> Tensor:
        walked, places = _windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        return einsum(f"...|{places}, {ic}; {taps}, ic, {oc} => ...|{walked}, {oc}", x, kernel, **names)

    return conv_transpose


def _pooling(axes: Sequence[str], reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def pool(
        x: object, window: Sizes, stride: Sizes | None = None, *, dilation: Sizes = 1, padding: str = "none"
    ) -> Tensor:
        walked, places = _windows(axes, window if stride is None else stride, dilation, padding)
        taps = {f"k{a}": size for a, size in zip(axes, _each(axes, "window", window), strict=True)}
        return reduce(x, f"...|{walked}, ..c.. => ...|{places}, ..c..", **taps)

    return pool


def _channels(groups: int) -> tuple[str, str, dict[str, Any]]:
    """Those of the operand and of the result; those of a group see each other alone."""
    if is_truth(groups) or not isinstance(groups, int | np.integer) or groups < 1:
        raise CodeError(f"`groups` is a positive integer, and not {groups!r}")
    return ("ic", "oc", {}) if groups == 1 else ("(groups ic)", "(groups oc)", {"groups": int(groups)})


_CONVOLUTION = """The sum of each window of `x` times a kernel; `groups` part the channels into as many convolutions.

    edges = oc.{name}(x, kernel, padding="same")

`stride` and `dilation` are integers, or one for each axis. `padding="none"` takes the windows that lie inside, and the
axis is as long as they need, to the cell; `padding="same"` one window for each `stride` cells.

Shapes: `...|{walked}, ic; {taps}, ic, oc => ...|{places}, oc`; `w = stride*(ow - 1) + dilation*(kw - 1) + 1`, or
        `w = stride*ow`, and so for each axis. With groups, `ic` counts the channels of one group in the kernel, and all
        of them in `x`.
Grad:   to `x` the transposed convolution of what arrives, to `kernel` the windows times what arrives.
Raises: CodeError for settings that are none; ShapeError.
"""

_TRANSPOSED = """The kernel times each cell of `x`, summed where these windows overlap: what hands on the gradient of a
convolution, with the same settings.

Shapes: `...|{places}, ic; {taps}, ic, oc => ...|{walked}, oc`; `w = stride*(ow - 1) + dilation*(kw - 1) + 1`, or with
        `padding="same"` `w = stride*ow`, and so for each axis.
Grad:   to `x` the convolution of what arrives, to `kernel` the cells times what arrives.
Raises: CodeError for settings that are none; ShapeError.
"""

_POOLING = """{what} of each window of `x`; windows that touch unless `stride` says else.

`window`, `stride` and `dilation` are integers, or one for each axis. `padding="none"` takes the windows that lie
inside, and the axis is as long as they need, to the cell; `padding="same"` one window for each `stride` cells: what it
has outside {outside}.

Shapes: `...|{walked}, ..c.. => ...|{places}, ..c..`; `w = stride*(ow - 1) + dilation*(window - 1) + 1`, or
        `w = stride*ow`, and so for each axis.
Grad:   {grad}.
Raises: CodeError for settings that are none; ShapeError.
"""
_LARGEST = {
    "what": "The largest value",
    "outside": "is never the largest",
    "grad": "to the cells that attain the largest value, in equal shares",
}
_MEAN = {"what": "The mean", "outside": "counts as zeros", "grad": "an equal share to each cell"}


def _named(
    name: str, axes: Sequence[str], function: Callable[..., Tensor], text: str, **words: str
) -> Callable[..., Tensor]:
    """The public function, with its text."""
    rows = {"walked": axes, "places": [f"o{a}" for a in axes], "taps": [f"k{a}" for a in axes]}
    function.__name__ = function.__qualname__ = f"{name}{len(axes)}d"
    joined = {row: ", ".join(names) for row, names in rows.items()}
    function.__doc__ = text.format(name=function.__name__, **joined, **words)
    REGISTRY[function.__name__] = composite(function)
    return REGISTRY[function.__name__]


_SPACES = (("w",), ("h", "w"), ("d", "h", "w"))

conv1d, conv2d, conv3d = (_named("conv", axes, _convolution(axes), _CONVOLUTION) for axes in _SPACES)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _named("conv_transpose", axes, _transposed_convolution(axes), _TRANSPOSED) for axes in _SPACES
)
max_pool1d, max_pool2d, max_pool3d = (
    _named("max_pool", axes, _pooling(axes, max_), _POOLING, **_LARGEST) for axes in _SPACES
)
avg_pool1d, avg_pool2d, avg_pool3d = (
    _named("avg_pool", axes, _pooling(axes, mean), _POOLING, **_MEAN) for axes in _SPACES
)

"""Convolutions and pooling: einsum specs with windows, in one, two or three dimensions.

    ...|h,w,ic; kh,kw,ic,oc => ...|oh,ow,oc     with   h = stride*oh + dilation*kh   and so on

Spatial axes come first and channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.explain import table
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.reductions import max_, mean

Sizes = int | Sequence[int]

PADDING = {"none": "<", "same": "="}


def per_axis(axes: Sequence[str], name: str, setting: Sizes) -> list[int]:
    """The value of a setting for each spatial axis, from one integer or a sequence."""
    sizes: list[Any] = list(setting) if isinstance(setting, list | tuple) else [setting] * len(axes)
    if len(sizes) != len(axes) or any(is_bool(n) or not isinstance(n, int | np.integer) or n < 1 for n in sizes):
        raise CodeError(f"`{name}` is a positive integer, or one for each of {len(axes)} axes, and not {setting!r}")
    return sizes


def spatial_windows(axes: Sequence[str], stride: Sizes, dilation: Sizes, padding: str) -> tuple[str, str]:
    """The specs of the spatial axes: of the windowed operand, and of the window positions."""
    if not isinstance(padding, str) or padding not in PADDING:
        raise CodeError(f"`padding` is {' or '.join(map(repr, PADDING))}, and not {padding!r}")
    steps = zip(axes, per_axis(axes, "stride", stride), per_axis(axes, "dilation", dilation), strict=True)
    windowed = (f"{step}*o{a}{PADDING[padding]}+{gap}*k{a}" for a, step, gap in steps)
    return ", ".join(windowed), ", ".join(f"o{a}" for a in axes)


def _convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: str = "none", groups: int = 1
    ) -> Tensor:
        windowed, positions = spatial_windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        x, kernel = embed(x), embed(kernel)
        _check_axes(x, axes, ("channels",))
        _check_axes(kernel, axes, ("input channels", "output channels"))
        return einsum(f"...|{windowed}, {ic}; {taps}, ic, {oc} => ...|{positions}, {oc}", x, kernel, **names)

    return conv


def _transposed_convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv_transpose(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: str = "none", groups: int = 1
    ) -> Tensor:
        windowed, positions = spatial_windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        x, kernel = embed(x), embed(kernel)
        _check_axes(x, axes, ("channels",))
        _check_axes(kernel, axes, ("input channels", "output channels"))
        return einsum(f"...|{positions}, {ic}; {taps}, ic, {oc} => ...|{windowed}, {oc}", x, kernel, **names)

    return conv_transpose


AXIS_NAMES = {"d": "depth", "h": "height", "w": "width"}


def _check_axes(t: Tensor, axes: Sequence[str], channels: Sequence[str]) -> None:
    """Checks the number of output axes, as far as inferred. Raises: ShapeError."""
    required = [*(AXIS_NAMES[a] for a in axes), *channels]
    count = axis_count(t, OUTPUT)
    if count in (None, len(required)):
        return
    role = "kernel" if len(channels) > 1 else "operand"
    listed = ", ".join(required)
    problem = f"the {role} of a convolution has {len(required)} output axes ({listed}), and `{t.label}` has {count}"
    sizes = ", ".join(axis.replace(" ", "_") for axis in required)
    fix = f"give `{t.label}` output=[{sizes}]" + ", or batch_axes= if leading axes are batches" * (role == "operand")
    raise ShapeError("\n".join([problem, *table([t.handle], fix)]))


def _pooling(axes: Sequence[str], reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def pool(
        x: object, window: Sizes, stride: Sizes | None = None, *, dilation: Sizes = 1, padding: str = "none"
    ) -> Tensor:
        per_axis(axes, "window", window)
        windowed, positions = spatial_windows(axes, window if stride is None else stride, dilation, padding)
        taps = {f"k{a}": size for a, size in zip(axes, per_axis(axes, "window", window), strict=True)}
        return reduce(x, f"...|{windowed}, ..c.. => ...|{positions}, ..c..", **taps)

    return pool


def _channels(groups: int) -> tuple[str, str, dict[str, Any]]:
    """The specs of input and output channels, and the sizes that they name; groups do not mix."""
    if is_bool(groups) or not isinstance(groups, int | np.integer) or groups < 1:
        raise CodeError(f"`groups` must be a positive integer, not {groups!r}")
    return ("ic", "oc", {}) if groups == 1 else ("(groups ic)", "(groups oc)", {"groups": int(groups)})


_CONVOLUTION = """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions.

    edges = oc.{name}(x, kernel, padding="same")

`stride` and `dilation` are integers, or one for each axis. With `padding="none"` all windows lie inside `x`, and its
size must be exactly covered by them; with `padding="same"` there is one window for each `stride` cells.

Shapes: `...|{windowed}, ic; {taps}, ic, oc => ...|{positions}, oc`; `w = stride*(ow - 1) + dilation*(kw - 1) + 1`,
        or `w = stride*ow`, and so on for each axis. With groups, `ic` is the number of channels of one group in the
        kernel, and of all groups in `x`.
Grad:   to `x` the transposed convolution of `g`, to `kernel` the sum of the windows times `g`.
Raises: CodeError for invalid settings; ShapeError.
"""

_TRANSPOSED = """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap.

This operation is the gradient of the convolution with the same settings.

Shapes: `...|{positions}, ic; {taps}, ic, oc => ...|{windowed}, oc`; `w = stride*(ow - 1) + dilation*(kw - 1) + 1`,
        or with `padding="same"` `w = stride*ow`, and so on for each axis.
Grad:   to `x` the convolution of `g`, to `kernel` the sum of the cells times windows of `g`.
Raises: CodeError for invalid settings; ShapeError.
"""

_POOLING = """The {reduction} of each window of `x`; `stride` is the window size by default.

`window`, `stride` and `dilation` are integers, or one for each axis. With `padding="none"` all windows lie inside `x`,
and its size must be exactly covered by them; with `padding="same"` there is one window for each `stride` cells, and
cells outside `x` {outside}.

Shapes: `...|{windowed}, ..c.. => ...|{positions}, ..c..`; `w = stride*(ow - 1) + dilation*(window - 1) + 1`, or
        `w = stride*ow`, and so on for each axis.
Grad:   {grad}.
Raises: CodeError for invalid settings; ShapeError.
"""
_MAX_POOLING = {
    "reduction": "maximum",
    "outside": "are ignored",
    "grad": "`g`, split equally among the cells that attain the maximum",
}
_MEAN_POOLING = {"reduction": "mean", "outside": "count as zeros", "grad": "`g / n` to each of the `n` cells"}


def register(
    name: str, axes: Sequence[str], function: Callable[..., Tensor], text: str, **descriptions: str
) -> Callable[..., Tensor]:
    """Names, documents and registers a public function."""
    rows = {"windowed": axes, "positions": [f"o{a}" for a in axes], "taps": [f"k{a}" for a in axes]}
    function.__name__ = function.__qualname__ = f"{name}{len(axes)}d"
    joined = {row: ", ".join(names) for row, names in rows.items()}
    function.__doc__ = text.format(name=function.__name__, **joined, **descriptions)
    REGISTRY[function.__name__] = composite(function)
    return REGISTRY[function.__name__]


SPATIAL_AXES = (("w",), ("h", "w"), ("d", "h", "w"))

conv1d, conv2d, conv3d = (register("conv", axes, _convolution(axes), _CONVOLUTION) for axes in SPATIAL_AXES)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    register("conv_transpose", axes, _transposed_convolution(axes), _TRANSPOSED) for axes in SPATIAL_AXES
)
max_pool1d, max_pool2d, max_pool3d = (
    register("max_pool", axes, _pooling(axes, max_), _POOLING, **_MAX_POOLING) for axes in SPATIAL_AXES
)
avg_pool1d, avg_pool2d, avg_pool3d = (
    register("avg_pool", axes, _pooling(axes, mean), _POOLING, **_MEAN_POOLING) for axes in SPATIAL_AXES
)

"""Convolutions and transposed convolutions: einsum specs with windows, in one, two or three dimensions.

    ...|h,w,ic; kh,kw,ic,oc => ...|oh,ow,oc     with   h = stride*oh + dilation*kh   and so on

Spatial axes come first and channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.infer.explain import table
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.windows import SPATIAL_AXES, Padding, Sizes, per_axis, register, require_numbers, spatial_windows


def _convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: Padding = "none",
        groups: int = 1, window: Sizes | None = None, channels: int | None = None,
    ) -> Tensor:  # fmt: skip
        windowed, positions = spatial_windows(axes, stride, dilation, padding)
        ic, oc, names = _channels(groups)
        names |= _kernel_sizes(axes, window, groups, channels)
        x, kernel = embed(x), embed(kernel)
        _check_axes(x, axes, ("channels",))
        _check_axes(kernel, axes, ("input channels", "output channels"))
        return einsum(f"...|{windowed}, {ic}; {taps}, ic, {oc} => ...|{positions}, {oc}", x, kernel, **names)

    return conv


def _depthwise_convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv(
        x: object, kernel: object, *, multiplier: int = 1, stride: Sizes = 1, dilation: Sizes = 1,
        padding: Padding = "none", window: Sizes | None = None,
    ) -> Tensor:  # fmt: skip
        windowed, positions = spatial_windows(axes, stride, dilation, padding)
        names: dict[str, Any] = {"m": positive("multiplier", multiplier), **_kernel_sizes(axes, window)}
        x, kernel = embed(x), embed(kernel)
        _check_axes(x, axes, ("channels",))
        _check_axes(kernel, axes, ("output channels",))
        return einsum(f"...|{windowed}, c; {taps}, (c m) => ...|{positions}, (c m)", x, kernel, **names)

    return conv


def _kernel_sizes(
    axes: Sequence[str], window: Sizes | None, groups: int = 1, channels: int | None = None
) -> dict[str, int]:
    """The sizes of a kernel that are given. Raises: CodeError."""
    sizes = {} if window is None else {f"k{a}": n for a, n in zip(axes, per_axis(axes, "window", window), strict=True)}
    if channels is None:
        return sizes
    if positive("channels", channels) % groups:
        raise CodeError(f"`channels` is a multiple of the {groups} groups, and not {channels}")
    return {**sizes, "oc": channels // groups}


def _transposed_convolution(axes: Sequence[str]) -> Callable[..., Tensor]:
    taps = ", ".join(f"k{a}" for a in axes)

    def conv_transpose(
        x: object, kernel: object, *, stride: Sizes = 1, dilation: Sizes = 1, padding: Padding = "none",
        output_padding: Sizes = 0, groups: int = 1, window: Sizes | None = None, channels: int | None = None,
    ) -> Tensor:  # fmt: skip
        more = _more_cells(axes, stride, dilation, padding, output_padding)
        windowed, positions = spatial_windows(axes, stride, dilation, padding, more)
        ic, oc, names = _channels(groups)
        names |= _kernel_sizes(axes, window, groups, channels)
        x, kernel = embed(x), embed(kernel)
        _check_axes(x, axes, ("channels",))
        _check_axes(kernel, axes, ("input channels", "output channels"))
        return einsum(f"...|{positions}, {ic}; {taps}, ic, {oc} => ...|{windowed}, {oc}", x, kernel, **names)

    return conv_transpose


def _more_cells(
    axes: Sequence[str], stride: Sizes, dilation: Sizes, padding: Padding, output_padding: Sizes
) -> list[int]:
    """Minus the cells that `output_padding` adds to the result. Raises: CodeError."""
    if output_padding == 0:
        return [0] * len(axes)
    require_numbers(padding, "output_padding")
    cells = per_axis(axes, "output_padding", output_padding, least=0)
    steps = zip(per_axis(axes, "stride", stride), per_axis(axes, "dilation", dilation), strict=True)
    for count, step in zip(cells, map(max, steps), strict=True):
        if count >= step:
            raise CodeError(f"`output_padding` is less than the stride or the dilation, {step}, and not {count}")
    return [-count for count in cells]


AXIS_NAMES = {"d": "depth", "h": "height", "w": "width"}


def _check_axes(t: Tensor, axes: Sequence[str], channels: Sequence[str]) -> None:
    """Checks the number of output axes, as far as inferred. Raises: ShapeError."""
    required = [*(AXIS_NAMES[a] for a in axes), *channels]
    count = axis_count(t, OUTPUT)
    if count in (None, len(required)):
        return
    role = "operand" if channels == ("channels",) else "kernel"
    listed = ", ".join(required)
    problem = f"the {role} of a convolution has {len(required)} output axes ({listed}), and `{t.label}` has {count}"
    sizes = ", ".join(axis.replace(" ", "_") for axis in required)
    fix = f"give `{t.label}` output=[{sizes}]" + ", or batch_axes= if leading axes are batches" * (role == "operand")
    raise ShapeError("\n".join([problem, *table([t.handle], fix)]))


def _channels(groups: int) -> tuple[str, str, dict[str, Any]]:
    """The specs of input and output channels, and the sizes that they name; groups do not mix."""
    count = positive("groups", groups)
    return ("ic", "oc", {}) if count == 1 else ("(groups ic)", "(groups oc)", {"groups": count})


def positive(name: str, value: object) -> int:
    """The integer. Raises: CodeError unless it is positive."""
    if is_bool(value) or not isinstance(value, int | np.integer) or value < 1:
        raise CodeError(f"`{name}` must be a positive integer, not {value!r}")
    return int(value)


_CONVOLUTION = """The sum over each window of `x` times a kernel; `groups` splits channels into separate convolutions.

    edges = oc.{name}(x, kernel, padding="same")

`stride` and `dilation` are integers, or one for each axis. With `padding="none"` all windows lie inside `x`, and its
size must be exactly covered by them; with `padding="same"` there is one window for each `stride` cells. A padding in
numbers adds zeros: as many at both ends of each axis, or one number or pair (before, after) for each axis; there are as
many windows as fit, as in PyTorch and ONNX, and cells that no window reaches are ignored. `window` and `channels` are
the sizes of a kernel that is inferred, its window and its output channels.

Shapes: `...|{windowed}, ic; {taps}, ic, oc => ...|{positions}, oc`; `w = stride*(ow - 1) + dilation*(kw - 1) + 1`,
        or `w = stride*ow`, or `ow = (before + w + after - dilation*(kw - 1) - 1) // stride + 1`, and so on for each
        axis. With groups, `ic` is the number of channels of one group in the
        kernel, and of all groups in `x`.
Grad:   to `x` the transposed convolution of `g`, to `kernel` the sum of the windows times `g`.
Raises: CodeError for invalid settings; ShapeError.
"""

_TRANSPOSED = """The transposed convolution: the kernel times each cell of `x`, summed where these windows overlap.

This operation is the gradient of the convolution with the same settings. With a padding in numbers, its result is the
shortest operand of that convolution, plus `output_padding` cells at the end of each axis. `window` and `channels` are
the sizes of a kernel that is inferred.

Shapes: `...|{positions}, ic; {taps}, ic, oc => ...|{windowed}, oc`; `w = stride*(ow - 1) + dilation*(kw - 1) + 1`,
        or with `padding="same"` `w = stride*ow`, or with a padding in numbers the first less `before + after`, plus
        `output_padding`, and so on for each axis.
Grad:   to `x` the convolution of `g`, to `kernel` the sum of the cells times windows of `g`.
Raises: CodeError for invalid settings; ShapeError.
"""

_DEPTHWISE = """The convolution of each channel of `x` alone, by `multiplier` kernels.

The other settings are those of a convolution.

Shapes: `...|{windowed}, c; {taps}, (c m) => ...|{positions}, (c m)`, with `m = multiplier`, and the sizes of a
        convolution.
Grad:   that of a convolution.
Raises: CodeError for invalid settings; ShapeError.
"""

conv1d, conv2d, conv3d = (register("conv", axes, _convolution(axes), _CONVOLUTION) for axes in SPATIAL_AXES)
depthwise_conv1d, depthwise_conv2d, depthwise_conv3d = (
    register("depthwise_conv", axes, _depthwise_convolution(axes), _DEPTHWISE) for axes in SPATIAL_AXES
)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    register("conv_transpose", axes, _transposed_convolution(axes), _TRANSPOSED) for axes in SPATIAL_AXES
)

"""Convolution layers in one, two and three dimensions: plain, transposed and depthwise.

    w = oc.param(oc.kaiming())
    y = oc.conv2d(x, w, window=window, channels=channels) + oc.param("b", 0.0, o=[channels])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.lang.ops.windows import MARKS, SPATIAL_AXES, Padding, Sizes, margins, per_axis
from ocannl.nn.layer import Layer, layer


def _convolution(operation: Callable[..., Tensor], text: str) -> Layer[Tensor]:
    def convolution(
        x: Tensor, *, channels: int, window: Sizes, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
        groups: int = 1, bias: bool = True, init: object = None,
    ) -> Tensor:  # fmt: skip
        w = oc.param(oc.kaiming() if init is None else init)
        settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        y = operation(x, w, window=window, channels=channels, **settings)
        return y + oc.param("b", 0.0, o=[channels]) if bias else y

    return _named(convolution, operation.__name__, text)


def _transposed_convolution(operation: Callable[..., Tensor], text: str) -> Layer[Tensor]:
    def convolution(
        x: Tensor, *, channels: int, window: Sizes, stride: Sizes = 1, padding: Padding = 0, output_padding: Sizes = 0,
        dilation: Sizes = 1, groups: int = 1, bias: bool = True, init: object = None,
    ) -> Tensor:  # fmt: skip
        w = oc.param(oc.kaiming() if init is None else init)
        settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        y = operation(x, w, window=window, channels=channels, output_padding=output_padding, **settings)
        return y + oc.param("b", 0.0, o=[channels]) if bias else y

    return _named(convolution, operation.__name__, text)


def _depthwise_convolution(operation: Callable[..., Tensor], text: str) -> Layer[Tensor]:
    def convolution(
        x: Tensor, *, window: Sizes, multiplier: int = 1, stride: Sizes = 1, padding: Padding = 0,
        dilation: Sizes = 1, bias: bool = True, init: object = None,
    ) -> Tensor:  # fmt: skip
        w = oc.param(oc.kaiming() if init is None else init)
        y = operation(x, w, window=window, multiplier=multiplier, stride=stride, padding=padding, dilation=dilation)
        return oc.einsum("...|..s.., c; c => ...|..s.., c", y, oc.param("b", 0.0), combine="add") if bias else y

    return _named(convolution, operation.__name__, text)


def _named(function: Callable[..., Tensor], name: str, text: str) -> Layer[Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text.format(name=name)
    axes = SPATIAL_AXES[int(name.removesuffix("d")[-1]) - 1]
    return layer(check=partial(_check_windows, axes))(function)


def _check_windows(axes: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raises CodeError for settings of another number of axes, or an unknown padding."""
    for name, least in (("window", 1), ("stride", 1), ("dilation", 1), ("output_padding", 0)):
        if name in settings:
            per_axis(axes, name, settings[name], least)
    if not (isinstance(settings["padding"], str) and settings["padding"] in MARKS):
        margins(axes, settings["padding"])


_CONVOLUTION = """`oc.{name}` with a learned kernel `w`, plus `b`; `channels` is the number of output channels.

The settings are those of `oc.{name}`, and the default of `padding` is 0.

Init:   `w` by `init`, `oc.kaiming()` by default; `b` 0.
"""
_DEPTHWISE = """`oc.{name}` with a learned kernel `w`, plus `b`: `multiplier` kernels convolve each channel alone.

The settings are those of `oc.{name}`, and the default of `padding` is 0.

Init:   `w` by `init`, `oc.kaiming()` by default; `b` 0.
"""

conv1d, conv2d, conv3d = (_convolution(op, _CONVOLUTION) for op in (oc.conv1d, oc.conv2d, oc.conv3d))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _transposed_convolution(op, _CONVOLUTION)
    for op in (oc.conv_transpose1d, oc.conv_transpose2d, oc.conv_transpose3d)
)
depthwise_conv1d, depthwise_conv2d, depthwise_conv3d = (
    _depthwise_convolution(op, _DEPTHWISE) for op in (oc.depthwise_conv1d, oc.depthwise_conv2d, oc.depthwise_conv3d)
)

"""VGG networks of 11, 13, 16 and 19 layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ocannl.base.errors import ArgumentError
from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.convolutions import conv2d
from ocannl.nn.layer import layer
from ocannl.nn.linear import mlp
from ocannl.nn.norms import batch_norm

CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""The number of convolutions in each stage, by the number of layers."""


def _check_channels(settings: Mapping[str, Any]) -> None:
    channels, stages = settings["channels"], len(CONVOLUTIONS[16])
    if len(channels) != stages:
        raise ArgumentError(f"nn.vgg: `channels` holds those of {stages} stages, not {channels!r}")


@layer(check=_check_channels)
def vgg(
    x: Tensor, *, layers: Literal[11, 13, 16, 19] = 16, classes: int = 1000, norm: bool = False,
    channels: Sequence[int] = (64, 128, 256, 512, 512), width: int = 4096, rate: float = 0.5,
) -> Tensor:  # fmt: skip
    """VGG: five stages of 3x3 convolutions with `channels`, each followed by max pooling, and three dense layers.

    With `norm`, batch norm follows each convolution. Before the dense layers of `width` units, whose dropout is at
    `rate`, the image is pooled to 7x7 cells, as in torchvision.

    Shapes: `...|h, w, c => ...|classes`, with `h` and `w` of 32 or more.
    Source: Simonyan, Zisserman 2015.
    """
    for count, stage_channels in zip(CONVOLUTIONS[layers], channels, strict=True):
        for _ in range(count):
            x = conv2d(x, channels=stage_channels, window=3, padding=1)
            x = oc.relu(batch_norm(x) if norm else x)
        x = oc.max_pool2d(x, 2, padding=0)
    return mlp(oc.adaptive_avg_pool2d(x, 7), widths=[width, width, classes], rate=rate)

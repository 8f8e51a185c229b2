"""Residual networks of 18 to 152 layers."""

from __future__ import annotations

from typing import Literal

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.convolutions import conv2d
from ocannl.nn.layer import layer
from ocannl.nn.linear import linear
from ocannl.nn.norms import batch_norm
from ocannl.nn.pooling import global_avg_pool

BASIC = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
BOTTLENECK = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""The number of blocks in each stage, by the number of layers."""


def normed_conv(x: Tensor, channels: int, window: int, stride: int = 1) -> Tensor:
    """A convolution without bias, padded to the size of `x`, and batch norm."""
    return batch_norm(conv2d(x, channels=channels, window=window, stride=stride, padding=window // 2, bias=False))


@layer
def basic_block(x: Tensor, *, channels: int, stride: int = 1, project: bool = False) -> Tensor:
    """Two 3x3 convolutions with batch norm beside a shortcut: `x`, or with `project` a 1x1 convolution."""
    y = normed_conv(oc.relu(normed_conv(x, channels, 3, stride)), channels, 3)
    return oc.relu(y + (normed_conv(x, channels, 1, stride) if project else x))


@layer
def bottleneck_block(x: Tensor, *, channels: int, stride: int = 1, project: bool = False) -> Tensor:
    """Convolutions of 1x1, 3x3 and 1x1, the last with four times the channels, and a shortcut as in a basic block."""
    y = oc.relu(normed_conv(oc.relu(normed_conv(x, channels, 1)), channels, 3, stride))
    y = normed_conv(y, 4 * channels, 1)
    return oc.relu(y + (normed_conv(x, 4 * channels, 1, stride) if project else x))


@layer
def resnet(x: Tensor, *, layers: Literal[18, 34, 50, 101, 152] = 18, classes: int = 1000, width: int = 64) -> Tensor:
    """ResNet: a 7x7 convolution, max pooling, four stages of residual blocks, global pooling, and a dense layer.

    The first convolution has `width` channels, and each stage after the first twice as many as the one before. Networks
    of 50 layers and more have bottleneck blocks, with the stride in the 3x3 convolution, as in torchvision.

    Shapes: `...|h, w, c => ...|classes`.
    Source: He, Zhang, Ren, Sun 2016.
    """
    block = basic_block if layers in BASIC else bottleneck_block
    x = oc.relu(normed_conv(x, width, 7, stride=2))
    x = oc.max_pool2d(x, 3, 2, padding=1)
    for stage, count in enumerate((BASIC | BOTTLENECK)[layers]):
        for n in range(count):
            is_first = n == 0 and stage > 0
            settings = {"channels": width << stage, "stride": 2 if is_first else 1}
            project = is_first or (n == 0 and layers in BOTTLENECK)
            x = block(x, **settings, project=project, label=f"stage_{stage + 1}_block_{n + 1}")
    return linear(global_avg_pool(x), width=classes)

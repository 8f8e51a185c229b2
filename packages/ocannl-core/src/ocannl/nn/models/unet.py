"""U-Net."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.convolutions import conv2d, conv_transpose2d
from ocannl.nn.layer import layer
from ocannl.nn.norms import batch_norm


@layer
def double_conv(x: Tensor, *, channels: int, norm: bool) -> Tensor:
    """Two 3x3 convolutions, each followed by ReLU, with `norm` after batch norm."""
    for _ in range(2):
        x = conv2d(x, channels=channels, window=3, padding=1, bias=not norm)
        x = oc.relu(batch_norm(x) if norm else x)
    return x


@layer
def unet(x: Tensor, *, classes: int, widths: Sequence[int] = (64, 128, 256, 512, 1024), norm: bool = False) -> Tensor:
    """U-Net: levels of double convolutions, joined by max pooling on the way down and by transposed convolutions on the
    way up, which also sees each level of the way down. Convolutions are padded: the result has the size of `x`.

    `widths` are the channels of the levels; with `norm`, batch norm follows each 3x3 convolution.

    Shapes: `...|h, w, c => ...|h, w, classes`, with sizes that are multiples of `2**(len(widths) - 1)`.
    Source: Ronneberger, Fischer, Brox 2015.
    """
    levels = []
    for level, width in enumerate(widths):
        x = double_conv(oc.max_pool2d(x, 2) if level else x, channels=width, norm=norm, label=f"down_{level + 1}")
        levels.append(x)
    for level in reversed(range(len(widths) - 1)):
        up = conv_transpose2d(x, channels=widths[level], window=2, stride=2, label=f"up_conv_{level + 1}")
        joined = oc.concat("...|h,w,a; ...|h,w,b => ...|h,w,a^b", levels[level], up)
        x = double_conv(joined, channels=widths[level], norm=norm, label=f"up_{level + 1}")
    return conv2d(x, channels=classes, window=1)

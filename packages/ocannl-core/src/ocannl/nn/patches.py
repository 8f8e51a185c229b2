"""Patches: an image as a sequence of vectors."""

from __future__ import annotations

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.lang.ops.windows import Sizes
from ocannl.nn.convolutions import conv2d
from ocannl.nn.layer import layer


@layer
def patchify(x: Tensor, *, window: Sizes, width: int, bias: bool = True, init: object = None) -> Tensor:
    """The patches of an image in row-major order, each mapped to `width` features, as in vision transformers.

    Shapes: `...|h, w, c => ..., t|width`, with `t = (h / window) * (w / window)`.
    Init:   that of `nn.conv2d`.
    Source: Dosovitskiy et al. 2021.
    """
    y = conv2d(x, channels=width, window=window, stride=window, padding="none", bias=bias, init=init)
    return oc.einsum("...|h, w, c => ..., (h w)|c", y)

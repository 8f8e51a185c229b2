"""Layers that several families use, and their twins: `t_` stands for torch.

Images are `height, width, channels` here and `batch, channels, height, width` in PyTorch; a twin transposes its input
once, and kernels where they are used.
"""

from __future__ import annotations

from typing import Any

import ocannl as oc

from .twin import Weights, torch

F = torch.nn.functional


def he(fan_in: int) -> oc.Tensor:
    return oc.normal(std=(2 / fan_in) ** 0.5)


@oc.op
def dense(x, *, outputs):
    w = oc.param(oc.kaiming(), o=[outputs])
    b = oc.param(oc.normal(std=0.1), o=[outputs])
    return w @ x + b


@oc.op
def layer_norm(x):
    """Over the last axis."""
    gain = oc.param(oc.uniform(0.5, 1.5), o=[x.dims[-1]])
    bias = oc.param(o=[x.dims[-1]])
    centered = x - x.mean("...|..a.., d => ...|..a.., 0")
    return gain * centered * oc.recip_sqrt((centered**2).mean("...|..a.., d => ...|..a.., 0") + 1e-5) + bias


@oc.op
def batch_norm(x):
    """Over the batch and all positions of an image."""
    gain = oc.param(oc.uniform(0.5, 1.5), o=[x.dims[-1]])
    bias = oc.param(o=[x.dims[-1]])
    centered = x - x.mean("...|h,w,c => c")
    return gain * centered * oc.recip_sqrt((centered**2).mean("...|h,w,c => c") + 1e-5) + bias


@oc.op
def conv(x, *, channels, window, stride=1, groups=1, padding="none"):
    """A convolution with a bias."""
    b = oc.param(oc.normal(std=0.1), o=[channels])
    return bare_conv(x, channels=channels, window=window, stride=stride, groups=groups, padding=padding) + b


@oc.op
def bare_conv(x, *, channels, window, stride=1, groups=1, padding="same"):
    """A convolution without a bias."""
    inner = x.dims[-1] // groups
    kernel = oc.param(he(window * window * inner), o=[window, window, inner, channels])
    return oc.conv2d(x, kernel, stride=stride, groups=groups, padding=padding)


def pooled(x):
    """The mean over all positions of an image."""
    return x.mean("...|h,w,c => ...|c")


# --- their twins -----------------------------------------------------------------------------------------------------


def image(x: Any) -> Any:
    return x.permute(0, 3, 1, 2).contiguous()


def t_dense(x: Any, w: Weights) -> Any:
    return F.linear(x, w["w"].flatten(1), w["b"])


def t_layer_norm(x: Any, w: Weights) -> Any:
    return F.layer_norm(x, x.shape[-1:], w["gain"], w["bias"])


def t_batch_norm(x: Any, w: Weights) -> Any:
    return F.batch_norm(x, None, None, w["gain"], w["bias"], training=True)


def t_conv(x: Any, w: Weights, **settings: Any) -> Any:
    return t_bare_conv(x, w("bare_conv"), **settings) + w["b"][:, None, None]


def t_bare_conv(x: Any, w: Weights, **settings: Any) -> Any:
    return F.conv2d(x, w["kernel"].permute(3, 2, 0, 1), **settings)

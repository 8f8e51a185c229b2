"""Layers in PyTorch, with channels as the last axis, as in the layouts of ocannl.

`SHIFT` moves discontinuities of derivatives, relative to the largest cell, to measure the effects of rounding. PyTorch
is optional: it is needed only when a function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import torch
    from torch.nn import functional as F
except ImportError:  # pragma: no cover
    torch = F = None  # type: ignore[assignment]

T = Any
SHIFT = 0.0
FUNCTIONS = (
    "side", "relu", "gelu", "absolute", "leaky", "sat01", "greatest", "larger", "padded", "conv", "conv_transpose",
    "windows", "max_pool", "avg_pool", "variance", "normalized", "rms", "entropy",
)  # fmt: skip
KINKED = ("relu", "absolute", "leaky", "sat01", "greatest", "larger", "max_pool")  # with jumps of the derivative


def side(x: T) -> T:
    """1 where `x` is above the jump of a derivative at 0, -1 where below, 0 where it is 0."""
    moved = x.detach() - SHIFT * x.detach().abs().amax()
    return torch.where(x.detach() == 0, 0.0, torch.sign(moved)).to(x.dtype)


def relu(x: T) -> T:
    return x * (side(x) > 0)


def gelu(x: T) -> T:
    return F.gelu(x, approximate="tanh")


def leaky(x: T, slope: float) -> T:
    return torch.where(side(x) > 0, x, slope * x)


def absolute(x: T) -> T:
    return x * side(x)


def sat01(x: T) -> T:
    return x * (side(x) > 0) * (side(1 - x) > 0) + (side(1 - x) <= 0)


def larger(x: T, y: T) -> T:
    return greatest(torch.stack(torch.broadcast_tensors(x, y), -1), (-1,))


def greatest(x: T, axes: Sequence[int]) -> T:
    """The largest cell; cells that tie share its gradient."""
    largest = x.detach().amax(axes, keepdim=True)
    ties = (x.detach() >= largest - abs(SHIFT) * x.detach().abs().amax()).to(x.dtype)
    shared = (x * ties).sum(axes) / ties.sum(axes)
    return shared + (largest.squeeze(tuple(axes)) - shared.detach() if SHIFT else 0.0)


def variance(x: T, axes: Sequence[int], keepdim: bool) -> T:
    """In two passes: the running sums of `torch.var` lose up to 12 bits in float64 over 150 000 cells."""
    off = x - x.mean(axes, keepdim=True)
    return (off * off).mean(axes, keepdim=keepdim)


def normalized(x: T, axes: Sequence[int], eps: float) -> T:
    return (x - x.mean(axes, keepdim=True)) / torch.sqrt(variance(x, axes, keepdim=True) + eps)


def rms(x: T, axes: Sequence[int], eps: float) -> T:
    return x / torch.sqrt((x * x).mean(axes, keepdim=True) + eps)


def padded(x: T, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], fill: float) -> T:
    """Channels first; as many cells before and after each axis as give one window for each `stride` cells."""
    around: list[int] = []
    for size, step, gap in zip(window, stride, dilation, strict=True):
        span = 1 + (size - 1) * gap
        around = [span // 2, span - span // 2 - step, *around]
    return F.pad(x, around, value=fill)


def conv(
    x: T, kernel: T, stride: Sequence[int], dilation: Sequence[int], padding: str = "none", groups: int = 1
) -> T:
    space = len(stride)
    first, k = x.flatten(0, -space - 2).movedim(-1, 1), kernel.permute(-1, -2, *range(space)).contiguous()
    if padding == "same":
        first = padded(first, kernel.shape[:space], stride, dilation, 0.0)
    result = getattr(F, f"conv{space}d")(first, k, stride=stride, dilation=dilation, groups=groups)
    return result.movedim(1, -1).unflatten(0, x.shape[: -space - 1])


def conv_transpose(x: T, kernel: T, stride: Sequence[int]) -> T:
    space = len(stride)
    first, k = x.flatten(0, -space - 2).movedim(-1, 1), kernel.permute(-2, -1, *range(space)).contiguous()
    result = getattr(F, f"conv_transpose{space}d")(first, k, stride=stride)
    return result.movedim(1, -1).unflatten(0, x.shape[: -space - 1])


def windows(x: T, window: Sequence[int], stride: Sequence[int], padding: str, fill: float) -> T:
    """Cells of each window, as last axes, one for each axis in space; batch axes are one."""
    space = len(stride)
    first = x.flatten(0, -space - 2).movedim(-1, 1)
    if padding == "same":
        first = padded(first, window, stride, (1,) * space, fill)
    for axis, (size, step) in enumerate(zip(window, stride, strict=True), 2):
        first = first.unfold(axis, size, step)
    return first.movedim(1, 1 + space)


def max_pool(x: T, window: Sequence[int], stride: Sequence[int], padding: str = "none") -> T:
    space = len(stride)
    seen = windows(x, window, stride, padding, -torch.inf)
    largest = greatest(torch.where(torch.isinf(seen), x.detach().amin() - 1, seen), tuple(range(-space, 0)))
    return largest.unflatten(0, x.shape[: -space - 1])


def avg_pool(x: T, window: Sequence[int], stride: Sequence[int], padding: str = "none") -> T:
    space = len(stride)
    seen = windows(x, window, stride, padding, 0.0)
    return seen.mean(tuple(range(-space, 0))).unflatten(0, x.shape[: -space - 1])


def entropy(logits: T, ids: T) -> T:
    """The cross entropy of each cell of `ids`."""
    return -torch.log_softmax(logits, -1).gather(-1, ids[..., None])[..., 0]

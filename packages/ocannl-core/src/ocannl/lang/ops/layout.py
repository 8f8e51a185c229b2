"""Exchanges of channels, space and batches: merged axes are split, and their parts are merged in another order.

    depth_to_space   h, w, (a b c)       => (h a), (w b), c      mode DCR
    space_to_batch   n | (h a), (w b)    => (a b n) | h, w

Spatial axes are the first output axes; channels are the last output axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.padding import Widths, pad_with, pairs_of
from ocannl.lang.ops.repetition import slice_axes
from ocannl.lang.ops.selected_axes import SelectedAxes, integers_per_axis, spatial_axes

Sizes = int | Sequence[int]
DEPTH_ORDERS = {"DCR": "({blocks} c)", "CRD": "(c {blocks})"}
"""The order of the block positions and the channels in the merged channels, by mode."""


class _Blocks:
    """The parts of specs for spatial axes that are divided into blocks."""

    def __init__(self, title: str, x: object, block: object) -> None:
        count = len(block) if isinstance(block, list | tuple) else None
        self.axes: SelectedAxes = spatial_axes(x, count, title)
        names = self.axes.names
        self.sizes: dict[str, Any] = {
            f"b{a}": size for a, size in zip(names, integers_per_axis(title, "block", block, len(names)), strict=True)
        }
        self.whole = ", ".join(f"({a} b{a})" for a in names)
        self.positions = ", ".join(names)
        self.inside = " ".join(self.sizes)

    def apply(self, spec: str, x: Tensor | None = None) -> Tensor:
        return einsum(spec, self.axes.x if x is None else x, **self.sizes)


def _depth(mode: object, blocks: _Blocks, title: str) -> str:
    if not isinstance(mode, str) or mode not in DEPTH_ORDERS:
        raise CodeError(f"`mode` of oc.{title} is 'DCR' or 'CRD', and not {mode!r}"[:200])
    return DEPTH_ORDERS[mode].format(blocks=blocks.inside)


@composite
def depth_to_space(x: object, block: Sizes, *, mode: str = "DCR") -> Tensor:
    """Moves blocks of channels to the spatial axes, which are all output axes but the last.

    `block` is the size of a block of space, or a size for each axis. The channels are merged from the position in the
    block and the new channels, in this order (`mode="DCR"`) or in the opposite one (`"CRD"`).

    Shapes: `...|h, w, (a b c) => ...|(h a), (w b), c`, with `CRD` `...|h, w, (c a b)`; so for one to three axes.
    Grad:   `space_to_depth` of `g`.
    Raises: CodeError for invalid settings; ShapeError, also for channels that are no multiple of the blocks.
    """
    blocks = _Blocks("depth_to_space", x, block)
    depth = _depth(mode, blocks, "depth_to_space")
    return blocks.apply(f"...|{blocks.positions}, {depth} => ...|{blocks.whole}, c")


@composite
def space_to_depth(x: object, block: Sizes, *, mode: str = "DCR") -> Tensor:
    """Moves blocks of the spatial axes to the channels: the inverse of `depth_to_space`.

    Shapes: `...|(h a), (w b), c => ...|h, w, (a b c)`, with `CRD` `...|h, w, (c a b)`; so for one to three axes.
    Grad:   `depth_to_space` of `g`.
    Raises: CodeError for invalid settings; ShapeError, also for axes that are no multiple of the blocks.
    """
    blocks = _Blocks("space_to_depth", x, block)
    depth = _depth(mode, blocks, "space_to_depth")
    return blocks.apply(f"...|{blocks.whole}, c => ...|{blocks.positions}, {depth}")


@composite
def pixel_shuffle(x: object, block: Sizes) -> Tensor:
    """`depth_to_space` with `mode="CRD"`, the order of channels in PyTorch.

    Shapes: `...|h, w, (c a b) => ...|(h a), (w b), c`; so for one to three axes.
    Grad:   `pixel_unshuffle` of `g`.
    Raises: CodeError for invalid settings; ShapeError, also for channels that are no multiple of the blocks.
    Source: Shi, Caballero, Huszár, Totz, Aitken, Bishop, Rueckert, Wang 2016.
    """
    return depth_to_space(x, block, mode="CRD")


@composite
def pixel_unshuffle(x: object, block: Sizes) -> Tensor:
    """`space_to_depth` with `mode="CRD"`, the order of channels in PyTorch.

    Shapes: `...|(h a), (w b), c => ...|h, w, (c a b)`; so for one to three axes.
    Grad:   `pixel_shuffle` of `g`.
    Raises: CodeError for invalid settings; ShapeError, also for axes that are no multiple of the blocks.
    """
    return space_to_depth(x, block, mode="CRD")


@composite
def channel_shuffle(x: object, groups: int) -> Tensor:
    """Interleaves groups of channels, which are the last output axis.

    Shapes: `...|..s.., (groups c) => ...|..s.., (c groups)`.
    Grad:   `g` in the order of the channels of `x`.
    Raises: CodeError unless `groups` is a positive integer; ShapeError, also for channels that are no multiple of it.
    Source: Zhang, Zhou, Lin, Sun 2018.
    """
    (count,) = integers_per_axis("channel_shuffle", "groups", groups, 1)
    return einsum("...|..s.., (groups c) => ...|..s.., (c groups)", embed(x), groups=count)


@composite
def space_to_batch(x: object, block: Sizes, *, padding: Widths = 0) -> Tensor:
    """Moves the positions inside blocks of the spatial axes to the batch axis, after padding with zeros.

    `block` is one size for all output axes but the last, or one for each spatial axis; `padding` as in `pad`.

    Shapes: `n|(h a), (w b), ..c.. => (a b n)|h, w, ..c..`; so for one to three axes.
    Grad:   `batch_to_space` of `g`.
    Raises: CodeError for invalid settings; ShapeError, also for axes that are no multiple of the blocks.
    """
    blocks = _Blocks("space_to_batch", x, block)
    widths = dict(zip(blocks.axes.names, pairs_of("space_to_batch", padding, len(blocks.axes.names)), strict=True))
    padded = pad_with(blocks.axes, {name: width for name, width in widths.items() if width != (0, 0)}, 0)
    return blocks.apply(f"n|{blocks.whole}, ..c.. => ({blocks.inside} n)|{blocks.positions}, ..c..", padded)


@composite
def batch_to_space(x: object, block: Sizes, *, crops: Widths = 0) -> Tensor:
    """Moves the positions inside blocks from the batch axis to the spatial axes, and then removes `crops` cells: the
    inverse of `space_to_batch`.

    Shapes: `(a b n)|h, w, ..c.. => n|(h a), (w b), ..c..`; so for one to three axes.
    Grad:   `space_to_batch` of `g`.
    Raises: CodeError for invalid settings; ShapeError, also for batches that are no multiple of the blocks.
    """
    blocks = _Blocks("batch_to_space", x, block)
    names = blocks.axes.names
    crop = dict(zip(names, pairs_of("batch_to_space", crops, len(names)), strict=True))
    whole = blocks.apply(f"({blocks.inside} n)|{blocks.positions}, ..c.. => n|{blocks.whole}, ..c..")
    if not any(map(any, crop.values())):
        return whole
    axes = blocks.axes.with_tensor(whole)
    ranges = {name: (before, axes.size(name) - before - after) for name, (before, after) in crop.items()}
    return slice_axes(axes, ranges)


REGISTRY.update(
    depth_to_space=depth_to_space, space_to_depth=space_to_depth, pixel_shuffle=pixel_shuffle,
    pixel_unshuffle=pixel_unshuffle, channel_shuffle=channel_shuffle, space_to_batch=space_to_batch,
    batch_to_space=batch_to_space,
)  # fmt: skip

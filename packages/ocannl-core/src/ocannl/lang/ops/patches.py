"""Windows as axes (im2col), and their sums (col2im)."""

from __future__ import annotations

from typing import Any

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.indexed_rows import OUTPUT, axis_count
from ocannl.lang.ops.selected_axes import SPATIAL_NAMES, integers_per_axis, spatial_axes
from ocannl.lang.ops.windows import Padding, Sizes, spatial_windows


@composite
def unfold(x: object, window: Sizes, stride: Sizes = 1, *, dilation: Sizes = 1, padding: Padding = "none") -> Tensor:
    """The windows of the spatial axes: a new axis for each of their axes, after the axes of their positions.

        patches = oc.unfold(images, (16, 16), 16)

    `window` is one size for all output axes but the last, or one for each spatial axis; the other settings are those
    of `conv2d`.

    Shapes: `...|h, w, ..c.. => ...|oh, ow, kh, kw, ..c..`, with the sizes of `conv2d`, for one to three axes.
    Grad:   `fold` of `g`.
    Raises: CodeError for invalid settings; ShapeError.
    """
    axes = spatial_axes(x, len(window) if isinstance(window, list | tuple) else None, "unfold")
    windowed, positions = spatial_windows(axes.names, stride, dilation, padding)
    sizes = integers_per_axis("unfold", "window", window, len(axes.names))
    taps: dict[str, Any] = {f"k{a}": size for a, size in zip(axes.names, sizes, strict=True)}
    return einsum(f"...|{windowed}, ..c.. => ...|{positions}, {', '.join(taps)}, ..c..", axes.x, **taps)


@composite
def fold(x: object, window: Sizes, stride: Sizes = 1, *, dilation: Sizes = 1, padding: Padding = "none") -> Tensor:
    """The sum of overlapping windows, in the axes that `unfold` returns.

    `window` is one size for each spatial axis, or one number if the output row consists of positions, windows and one
    axis of channels.

    Shapes: `...|oh, ow, kh, kw, ..c.. => ...|h, w, ..c..`, as in `unfold`.
    Grad:   `unfold` of `g`.
    Raises: CodeError for invalid settings; ShapeError.
    """
    t = embed(x)
    count = len(window) if isinstance(window, list | tuple) else ((axis_count(t, OUTPUT) or 0) - 1) // 2
    if count not in SPATIAL_NAMES:
        raise CodeError("`fold` takes one to three spatial axes: give `window` as a list with a size for each of them")
    names = SPATIAL_NAMES[count]
    windowed, positions = spatial_windows(names, stride, dilation, padding)
    sizes = integers_per_axis("fold", "window", window, count)
    taps: dict[str, Any] = {f"k{a}": size for a, size in zip(names, sizes, strict=True)}
    return einsum(f"...|{positions}, {', '.join(taps)}, ..c.. => ...|{windowed}, ..c..", t, **taps)


REGISTRY.update(unfold=unfold, fold=fold)

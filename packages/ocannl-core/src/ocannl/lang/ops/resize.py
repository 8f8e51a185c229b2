"""Resizing along spatial axes: each axis is a banded matrix of interpolation weights.

    source(t) = (t + 0.5) / scale - 0.5      the position of target t, in the coordinates `half_pixel`

The conventions are those of the operator Resize of ONNX; `interpolate` has those of PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.axis_maps import Array, Band, band, map_axis
from ocannl.lang.ops.selected_axes import SelectedAxes, check_table, integers_per_axis, spatial_axes

Sizes = int | Sequence[int]
Scales = float | Sequence[float]

# --- coordinates -----------------------------------------------------------------------------------------------------


def _half_pixel(t: Array, old: int, new: int, scale: float | None) -> Array:
    if scale is None:
        return ((2 * t + 1) * old - new) / (2 * new)  # rounded once
    return (t + 0.5) / scale - 0.5


def _pytorch_half_pixel(t: Array, old: int, new: int, scale: float | None) -> Array:
    return _half_pixel(t, old, new, scale) if new > 1 else np.zeros(new)


def _half_pixel_symmetric(t: Array, old: int, new: int, scale: float | None) -> Array:
    adjustment = 1.0 if scale is None else new / (scale * old)
    return old / 2 * (1 - adjustment) + _half_pixel(t, old, new, scale)


def _align_corners(t: Array, old: int, new: int, scale: float | None) -> Array:
    return t * (old - 1) / (new - 1) if new > 1 else np.zeros(new)


def _asymmetric(t: Array, old: int, new: int, scale: float | None) -> Array:
    return t * old / new if scale is None else t / scale


COORDINATES: dict[str, Callable[[Array, int, int, float | None], Array]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
}
"""The position of a target among the sources, by the name of the convention."""

ROUNDING: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda s: np.ceil(s - 0.5),
    "round_prefer_ceil": lambda s: np.floor(s + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""The nearest source, by the name of the convention."""

# --- kernels ---------------------------------------------------------------------------------------------------------


def _triangle(distance: Array, _: float) -> Array:
    weights: Array = np.maximum(1 - np.abs(distance), 0)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    """The cubic convolution kernel. Source: Keys 1981."""
    d: Array = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


KERNELS = {"linear": (_triangle, 1), "cubic": (_cubic, 2)}
"""Interpolation kernels, and the distance from which they are 0."""

MODES = ("nearest", *KERNELS, "area")


def _interpolation(source: Array, old: int, mode: str, a: float) -> Band:
    """The nearest 2 or 4 sources; those beyond an end are the end."""
    kernel, support = KERNELS[mode]
    start = np.floor(source).astype(int) - (support - 1)
    return band(start, kernel(start[:, None] + np.arange(2 * support) - source[:, None], a), old)


def _antialiased(source: Array, old: int, mode: str, a: float, shrink: float) -> Band:
    """All sources within the support of a kernel that is `shrink` times as wide; none beyond the ends."""
    kernel, support = KERNELS[mode]
    reach = support * shrink
    start = np.ceil(source - reach).astype(int)
    sources = start[:, None] + np.arange(int(2 * reach) + 1)
    weights = kernel((sources - source[:, None]) / shrink, a) * ((sources >= 0) & (sources < old))
    return band(start, weights / weights.sum(1, keepdims=True), old)


def area_windows(old: int, new: int) -> tuple[Array, Array]:
    """The first source that each target overlaps, and the source after the last."""
    t = np.arange(new)
    return t * old // new, -((-(t + 1) * old) // new)


def area_band(old: int, new: int) -> Band:
    """The mean of the sources that a target overlaps: `floor(t * old / new)` to `ceil((t + 1) * old / new)`."""
    first, end = area_windows(old, new)
    sources = first[:, None] + np.arange(int((end - first).max(initial=1)))
    inside = sources < end[:, None]
    return band(first, inside / (end - first)[:, None], old)


# --- operations ------------------------------------------------------------------------------------------------------


@composite
def resize(
    x: object,
    size: Sizes | None = None,
    *,
    scale: Scales | None = None,
    mode: str = "linear",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    antialias: bool = False,
    cubic_coeff_a: float | None = None,
) -> Tensor:
    """Resizes the spatial axes, which are the first output axes, to `size` cells, or to `scale` times their size.

        twice = oc.resize(images, scale=2)

    `size` and `scale` are one number for all output axes but the last, or one for each spatial axis. `mode` is
    `"nearest"`, `"linear"`, `"cubic"` or `"area"` (the mean of the cells that a new cell overlaps). The other settings
    are those of the operator Resize of ONNX:

    - `coordinates`: `"half_pixel"`, `"pytorch_half_pixel"`, `"half_pixel_symmetric"`, `"align_corners"`, `"asymmetric"`
    - `rounding` to the nearest cell: `"round_prefer_floor"`, `"round_prefer_ceil"`, `"floor"`, `"ceil"`
    - `antialias`: the kernel is widened where an axis shrinks
    - `cubic_coeff_a`: by default -0.75, and -0.5 with `antialias`

    Cells beyond an end have the value at the end; with `antialias`, they do not count.

    Shapes: `...|h, w, ..c.. => ...|size, size, ..c..`, for one to three spatial axes, whose sizes must be inferred
            before the call.
    Grad:   the transposed linear map of `g`.
    Raises: CodeError for invalid settings; ShapeError for unknown and empty axes.
    Source: Keys 1981 for the cubic kernel.
    """
    axes, ratios = _resized_axes("resize", x, size, scale)
    _check_choice("mode", mode, MODES)
    _check_choice("coordinates", coordinates, COORDINATES)
    _check_choice("rounding", rounding, ROUNDING)
    a = cubic_coeff_a if cubic_coeff_a is not None else -0.5 if antialias else -0.75
    return _along_axes(axes, ratios, lambda *ratio: _matrix(mode, coordinates, rounding, antialias, a, *ratio))


def _matrix(
    mode: str, coordinates: str, rounding: str, antialias: bool, a: float, old: int, new: int, scale: float | None
) -> Band:
    if mode == "area":
        return area_band(old, new)
    source = COORDINATES[coordinates](np.arange(new), old, new, scale)
    if mode == "nearest":
        nearest = np.clip(ROUNDING[rounding](source), 0, old - 1).astype(int)
        return Band(nearest, np.ones((new, 1)), old)
    if antialias:
        shrink = max(old / new if scale is None else 1 / scale, 1.0)
        return _antialiased(np.clip(source, -0.5, old - 0.5), old, mode, a, shrink)
    return _interpolation(np.clip(source, 0, old - 1) if mode == "linear" else source, old, mode, a)


def _along_axes(
    axes: SelectedAxes, ratios: dict[str, tuple[int, int, float | None]], matrix: Callable[..., Band]
) -> Tensor:
    """Maps each axis, those first that shrink most."""
    for name in sorted(axes.names, key=lambda name: ratios[name][1] / ratios[name][0]):
        axes = axes.with_tensor(map_axis(axes, name, matrix(*ratios[name])))
    return axes.x


def _resized_axes(
    title: str, x: object, size: object, scale: object
) -> tuple[SelectedAxes, dict[str, tuple[int, int, float | None]]]:
    """The spatial axes; their old size, new size, and scale if it is not the quotient of these."""
    if (size is None) == (scale is None):
        raise CodeError(f"oc.{title} takes either a size or a scale: oc.{title}(x, (32, 32)), oc.{title}(x, scale=2)")
    listed: Any = size if scale is None else scale
    axes = spatial_axes(x, len(listed) if isinstance(listed, list | tuple) else None, title)
    count = len(axes.names)
    old = {name: axes.size(name) for name in axes.names}
    for name, n in old.items():
        if n == 0:
            raise ShapeError(f"`{title}` of `{axes.x.label}`: the axis `{name}` has no cells to interpolate")
    if scale is None:
        sizes = integers_per_axis(title, "size", size, count)
        for name, new in zip(axes.names, sizes, strict=True):
            check_table(title, name, new)
        return axes, {name: (old[name], new, None) for name, new in zip(axes.names, sizes, strict=True)}
    scales: list[Any] = list(listed) if isinstance(listed, list | tuple) else [listed] * count
    if any(not is_number(s) or not math.isfinite(s) or s <= 0 for s in scales):
        raise CodeError(f"`scale` of oc.{title} is a positive number, or one for each axis, not {scale!r}"[:200])
    ratios: dict[str, tuple[int, int, float | None]] = {}
    for name, factor in zip(axes.names, map(float, map(python_number, scales)), strict=True):
        new = math.floor(old[name] * factor)
        if new < 1:
            raise CodeError(f"oc.{title}: {old[name]} cells times {factor:g} is less than one cell")
        check_table(title, name, new)
        ratios[name] = (old[name], new, None if new == old[name] * factor else factor)
    return axes, ratios


def _check_choice(setting: str, value: object, choices: Any) -> None:
    if not isinstance(value, str) or value not in choices:
        raise CodeError(f"`{setting}` is one of {', '.join(map(repr, choices))}, and not {value!r}"[:300])


PYTORCH_MODES = {
    "nearest": ("nearest", "asymmetric", "floor"),
    "nearest-exact": ("nearest", "half_pixel", "round_prefer_ceil"),
    "linear": ("linear", "half_pixel", ""),
    "bilinear": ("linear", "half_pixel", ""),
    "trilinear": ("linear", "half_pixel", ""),
    "bicubic": ("cubic", "half_pixel", ""),
    "area": ("area", "", ""),
}
"""Mode, coordinates and rounding of the modes of PyTorch."""


@composite
def interpolate(
    x: object,
    size: Sizes | None = None,
    *,
    scale: Scales | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """`resize` with the settings of PyTorch.

    `mode` is `"nearest"` (the cell below the position), `"nearest-exact"`, `"linear"` (or `"bilinear"`, `"trilinear"`),
    `"bicubic"` or `"area"`.

    Shapes: those of `resize`.
    Grad:   the transposed linear map of `g`.
    Raises: CodeError for invalid settings; ShapeError for unknown and empty axes.
    """
    _check_choice("mode", mode, PYTORCH_MODES)
    if align_corners and antialias:
        raise CodeError('`align_corners` and `antialias` exclude each other; oc.resize has coordinates="align_corners"')
    axes, ratios = _resized_axes("interpolate", x, size, scale)
    kind, coordinates, rounding = PYTORCH_MODES[mode]
    if align_corners and kind in KERNELS:
        coordinates = "align_corners"
    a = -0.5 if antialias else -0.75
    return _along_axes(axes, ratios, lambda *ratio: _matrix(kind, coordinates, rounding, antialias, a, *ratio))


REGISTRY.update(resize=resize, interpolate=interpolate)

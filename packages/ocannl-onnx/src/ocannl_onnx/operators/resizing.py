"""Resizing and sampling of images.

Each resized axis is a linear map, a banded matrix of weights that are computed while importing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import ocannl as oc
from ocannl.lang.ops.axis_maps import Band, band, map_axis
from ocannl.lang.ops.resize import KERNELS, ROUNDING
from ocannl.lang.ops.selected_axes import removed_axes
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import along, full
from ocannl_onnx.operators.quantization import saturated
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Array, Value, check_cells

# --- the cells that an axis is resized to ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resized:
    """An axis that is resized: its sizes, its scale, and the part of it that is read (`tf_crop_and_resize`).

    `scale` is None where it is the quotient of the sizes.
    """

    old: int
    new: int
    scale: float | None
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> float:
        """The exact size of the result, before it is rounded."""
        return self.new if self.scale is None else self.scale * self.old

    def unscaled(self, t: Array) -> Array:
        """Positions of the result divided by the scale, rounded once."""
        return t * self.old / self.new if self.scale is None else t / self.scale


def _half_pixel(t: Array, axis: Resized) -> Array:
    return axis.unscaled(t + 0.5) - 0.5


def _pytorch_half_pixel(t: Array, axis: Resized) -> Array:
    return _half_pixel(t, axis) if axis.length > 1 else np.zeros(len(t))


def _half_pixel_symmetric(t: Array, axis: Resized) -> Array:
    return axis.old / 2 * (1 - axis.new / axis.length) + _half_pixel(t, axis)


def _align_corners(t: Array, axis: Resized) -> Array:
    return np.zeros(len(t)) if axis.length == 1 else t * (axis.old - 1) / (axis.length - 1)


def _asymmetric(t: Array, axis: Resized) -> Array:
    return axis.unscaled(t)


def _tf_crop_and_resize(t: Array, axis: Resized) -> Array:
    last, extent = axis.old - 1, axis.end - axis.start
    inner = t * (extent * last / (axis.length - 1)) if axis.length != 1 else np.full(len(t), extent * last / 2)
    return axis.start * last + inner


COORDINATES: dict[str, Callable[[Array, Resized], Array]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_crop_and_resize": _tf_crop_and_resize,
}
"""The position of a cell of the result in the operand, by `coordinate_transformation_mode`."""


@dataclass(frozen=True, slots=True)
class Interpolation:
    """The settings of a resize that all axes share."""

    mode: str
    coordinates: str
    rounding: str = "floor"
    antialias: bool = False
    exclude_outside: bool = False
    cubic_coeff_a: float = -0.75

    def source(self, axis: Resized) -> Array:
        return COORDINATES[self.coordinates](np.arange(axis.new, dtype=np.float64), axis)

    def matrix(self, axis: Resized) -> Band:
        check_cells([axis.new])
        source = self.source(axis)
        if self.mode == "nearest":
            nearest = np.clip(ROUNDING[self.rounding](source), 0, axis.old - 1).astype(int)
            return Band(nearest, np.ones((axis.new, 1)), axis.old)
        kernel, support = KERNELS[self.mode]
        scale = min(axis.length / axis.old, 1.0) if self.antialias else 1.0
        first = int(np.floor(-support / scale)) + 1
        start = np.ceil(source).astype(int) - 1 + first
        cells = start[:, None] + np.arange(2 - 2 * first)
        weights = kernel((cells - source[:, None]) * scale, self.cubic_coeff_a)
        if self.exclude_outside:
            weights = weights * ((cells >= 0) & (cells < axis.old))
        total = weights.sum(1, keepdims=True)
        return band(start, weights / np.where(total == 0, 1.0, total), axis.old)


def resized(x: oc.Tensor, axes: dict[int, Resized], settings: Interpolation) -> oc.Tensor:
    """Resizes axes one after another, those first that shrink most. Interpolated integers are rounded, saturating."""
    dtype = x.dtype
    interpolates_integers = np.dtype(dtype.numpy).kind in "iu" and settings.mode != "nearest"
    x = oc.cast(x, oc.float64) if interpolates_integers else x
    for n, axis in sorted(axes.items(), key=lambda item: item[1].new / item[1].old):
        selected = removed_axes(x, along(len(x.dims), n), "resize")
        x = map_axis(selected, selected.names[0], settings.matrix(axis))
    return saturated(x.round(), dtype) if interpolates_integers else x


def _resized_axes(call: NodeCall, dims: Sequence[int], axes: Sequence[int], scales: Array | None,
                  sizes: Sequence[int] | None) -> dict[int, Resized]:  # fmt: skip
    """The axes by position, from scales or from sizes with a policy for the aspect ratio."""
    old = [dims[axis] for axis in axes]
    if scales is not None:
        call.require(len(scales) == len(axes) and bool((scales > 0).all()), f"scales {scales.tolist()} of {axes}")
        new = [int(np.floor(np.float32(size) * np.float32(scale))) for size, scale in zip(old, scales, strict=True)]
        numbers = zip(axes, old, new, map(float, scales), strict=True)
        return {n: Resized(size, count, scale) for n, size, count, scale in numbers}
    assert sizes is not None
    call.require(len(sizes) == len(axes) and min(old) > 0, f"sizes {sizes} of axes {axes}")
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return {n: Resized(size, new, None) for n, size, new in zip(axes, old, sizes, strict=True)}
    call.require(policy in ("not_larger", "not_smaller"), f"keep_aspect_ratio_policy {policy!r}")
    ratios = [new / size for size, new in zip(old, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return {n: Resized(size, int(scale * size + 0.5), scale) for n, size in zip(axes, old, strict=True)}


def _list_or_none(call: NodeCall, position: int) -> Array | None:
    """A constant input; None when it is omitted or empty."""
    if not call.has(position) or call.shape(position) == (0,):
        return None
    return call.constant(position).reshape(-1)


@operator("Resize", spelling="oc.resize, with the weights of ONNX")
def resize(call: NodeCall) -> Value:
    x = call.tensor(0)
    if call.version < 11:
        return _upsampled(call, x, call.constant(1))
    settings = _settings(call)
    rank = len(x.dims)
    axes = [call.position(axis, rank) for axis in call.attribute("axes", range(rank))]
    scales, sizes = _list_or_none(call, 2), _list_or_none(call, 3)
    call.require((scales is None) != (sizes is None), "either scales or sizes are required")
    chosen = _resized_axes(call, x.dims, axes, scales, None if sizes is None else [int(size) for size in sizes])
    if 0 in x.dims or any(axis.new == 0 for axis in chosen.values()):
        return full(0, [chosen[n].new if n in chosen else size for n, size in enumerate(x.dims)], x.dtype)
    if settings.coordinates == "tf_crop_and_resize":
        return _cropped(call, x, chosen, settings)
    return resized(x, _changed(chosen), settings)


def _settings(call: NodeCall) -> Interpolation:
    mode = call.attribute("mode", "nearest")
    coordinates = call.attribute("coordinate_transformation_mode", "half_pixel")
    rounding = call.attribute("nearest_mode", "round_prefer_floor")
    antialias = bool(call.attribute("antialias", 0))
    call.require(mode in ("nearest", *KERNELS), f"mode {mode!r}")
    call.require(coordinates in COORDINATES, f"coordinate_transformation_mode {coordinates!r}")
    call.require(rounding in ROUNDING, f"nearest_mode {rounding!r}")
    call.require(not (antialias and mode == "nearest"), "antialias with mode 'nearest'")
    exclude = bool(call.attribute("exclude_outside", 0))
    return Interpolation(mode, coordinates, rounding, antialias, exclude, call.attribute("cubic_coeff_a", -0.75))


def _changed(axes: dict[int, Resized]) -> dict[int, Resized]:
    return {n: axis for n, axis in axes.items() if axis.new != axis.old or axis.scale not in (None, 1.0)}


def _cropped(call: NodeCall, x: oc.Tensor, axes: dict[int, Resized], settings: Interpolation) -> oc.Tensor:
    """The resize of a region; cells outside the operand have the attribute `extrapolation_value`."""
    roi = _list_or_none(call, 1)
    call.require(roi is not None and len(roi) == 2 * len(axes), "a roi with a start and an end for each axis")
    assert roi is not None
    bounds = zip(axes.items(), roi[: len(axes)], roi[len(axes) :], strict=True)
    regions = {n: Resized(axis.old, axis.new, axis.scale, float(start), float(end))
               for (n, axis), start, end in bounds}  # fmt: skip
    changed = {n: axis for n, axis in regions.items() if (axis.start, axis.end) != (0.0, 1.0)} | _changed(regions)
    y = resized(x, changed, settings)
    outside = np.zeros(y.dims, bool)
    for n, axis in changed.items():
        source = settings.source(axis)
        beyond = (source < 0) | (source > axis.old - 1)
        outside |= beyond.reshape([-1 if n == k else 1 for k in range(len(y.dims))])
    if not outside.any():
        return y
    return oc.where(oc.tensor(outside), call.attribute("extrapolation_value", 0.0), y)


@operator("Upsample", spelling="oc.interpolate(x, scale=, mode=)")
def upsample(call: NodeCall) -> Value:
    x = call.tensor(0)
    if call.version >= 9:
        return _upsampled(call, x, call.constant(1))
    if call.version >= 7:
        return _upsampled(call, x, np.array(call.attribute("scales")))
    return _upsampled(call, x, np.array([1.0, 1.0, call.attribute("height_scale"), call.attribute("width_scale")]))


def _upsampled(call: NodeCall, x: oc.Tensor, scales: Array) -> oc.Tensor:
    """The resize of versions before 11. Their nearest cell is at or before the position, or after it in axes that
    shrink."""
    mode = {"bilinear": "linear"}.get(call.attribute("mode", "nearest"), call.attribute("mode", "nearest"))
    call.require(mode in ("nearest", "linear"), f"mode {mode!r}")
    axes = _changed(_resized_axes(call, x.dims, range(len(x.dims)), scales.reshape(-1), None))
    if 0 in x.dims or any(axis.new == 0 for axis in axes.values()):
        return full(0, [axes[n].new if n in axes else size for n, size in enumerate(x.dims)], x.dtype)
    for n, axis in axes.items():
        rounding = "ceil" if axis.length < axis.old else "floor"
        x = resized(x, {n: axis}, Interpolation(mode, "asymmetric", rounding))
    return x


# --- grids -------------------------------------------------------------------------------------------------------

GRID_MODES = {
    "bilinear": "linear", "bicubic": "cubic", "linear": "linear", "nearest": "nearest", "cubic": "cubic",
}  # fmt: skip


@operator("GridSample", spelling="oc.grid_sample(x, grid, mode=, padding=, align_corners=)",
          restrictions=("more than three spatial axes",))  # fmt: skip
def grid_sample(call: NodeCall) -> Value:
    x, grid = call.tensor(0), call.tensor(1)
    count = len(x.dims) - 2
    call.require(1 <= count <= 3 and grid.dims[-1] == count, f"a grid {grid.dims} for {x.dims}")
    mode, padding = call.attribute("mode", "linear"), call.attribute("padding_mode", "zeros")
    call.require(mode in GRID_MODES, f"mode {mode!r}")
    call.require(padding in ("zeros", "border", "reflection"), f"padding_mode {padding!r}")
    align = bool(call.attribute("align_corners", 0))
    if 0 in (*x.dims, *grid.dims):
        return full(0, (*x.dims[:2], *grid.dims[1:-1]), x.dtype)
    axes = ", ".join(f"s{n}" for n in range(count))
    images, points = oc.einsum(f"n, c, {axes} => n|{axes}, c", x), oc.einsum(f"n, {axes}, k => n|{axes}, k", grid)
    y = oc.grid_sample(images, points, mode=GRID_MODES[mode], padding=padding, align_corners=align)
    return oc.einsum(f"n|{axes}, c => n, c, {axes}", y)


@operator("AffineGrid", spelling="oc.affine_grid(theta, size, align_corners=)")
def affine_grid(call: NodeCall) -> Value:
    theta, size = call.tensor(0), call.integers(1)
    call.require(len(size) in (4, 5) and size[0] == theta.dims[0], f"size {size} for {theta.dims}")
    axes = ", ".join(f"s{n}" for n in range(len(size) - 2))
    align = bool(call.attribute("align_corners", 0))
    grid = oc.affine_grid(oc.einsum("n, i, j => n|i, j", theta), size[2:], align_corners=align)
    return oc.einsum(f"n|{axes}, k => n, {axes}, k", grid)

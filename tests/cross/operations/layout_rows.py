"""Resizing, padding, dividing and rearranging of axes beside PyTorch, whose channels come first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch_row import F, Row, torch

import ocannl as oc

KINDS = "float32 float64"
TYPES = f"{KINDS} int32 int64 uint8"
IMAGES = (((4, 6, 2),), ((5, 3, 1),), ((2, 2, 3),))
THREE_SPATIAL = (((3, 4, 2, 2),), ((2, 3, 5, 1),))
LINES = (((6, 2),), ((5, 3),))
TABLES = (((4, 5, 2),), ((3, 3, 1),))
BOTH = "h,w,c => c"

Function = Callable[..., Any]


def channels_first(f: Function, **settings: Any) -> Function:
    """A function of one image; `f` takes batches with the channels before the spatial axes."""
    return lambda x: f(x.movedim(-1, 0)[None], **settings)[0].movedim(0, -1)


def interpolated(title: str, mode: str, shapes: Any = IMAGES, kinds: str = "float64", **settings: Any) -> Row:
    torch_settings = {name.replace("scale", "scale_factor"): value for name, value in settings.items()}
    return Row(f"interpolate {title}", partial(oc.interpolate, mode=mode, **settings),
               channels_first(F.interpolate, mode=mode, **torch_settings), shapes, kinds, but=None)  # fmt: skip


def resampled(mode: str) -> list[Row]:
    nearest = mode.startswith("nearest") or mode == "area"
    rows = [
        interpolated(f"{mode} to 7 5", mode, kinds=KINDS, size=(7, 5)),
        interpolated(f"{mode} to 3 2", mode, size=(3, 2)), interpolated(f"{mode} to 1", mode, size=(1, 1)),
        interpolated(f"{mode} twice", mode, scale=2), interpolated(f"{mode} scaled", mode, scale=(0.6, 1.7)),
        interpolated(f"{mode} to 90", mode, size=(90, 2)),
    ]  # fmt: skip
    if nearest:
        return rows
    return [*rows, interpolated(f"{mode} aligned", mode, size=(7, 2), align_corners=True),
            interpolated(f"{mode} aligned to 1", mode, size=(1, 1), align_corners=True),
            interpolated(f"{mode} antialiased", mode, size=(2, 7), antialias=True),
            interpolated(f"{mode} antialiased to 1", mode, size=(1, 1), antialias=True)]  # fmt: skip


def padded(x: Any, widths: list[int], mode: str, value: float | None = None) -> Any:
    """PyTorch lists the widths of the last axis first, and pads no channels in other modes than `constant`."""
    return F.pad(x.movedim(-1, 0)[None], widths, mode=mode, value=value)[0].movedim(0, -1)


def differences(grids: Any) -> Any:
    """One result, in which no grid can stand for another."""
    x, y = grids
    return 3 * x - y


PADDING = [
    *(Row(f"pad {mode}", partial(oc.pad, widths=((2, 1), (0, 2)), spec=BOTH, mode=mode),
          lambda x, mode=mode: padded(x, [0, 2, 2, 1], mode), TABLES, KINDS)
      for mode in ("reflect", "replicate", "circular")),
    *(Row(f"pad with {value}", partial(oc.pad, widths=((2, 1), (0, 2)), spec=BOTH, value=value),
          lambda x, value=value: padded(x, [0, 2, 2, 1], "constant", value), (*TABLES, ((0, 2, 1),)), KINDS)
      for value in (0.0, 2.5, float("inf"))),
    Row("pad integers", partial(oc.pad, widths=1, spec=BOTH, value=7),
        lambda x: padded(x, [1, 1, 1, 1], "constant", 7), TABLES, "int32 int64", smooth=False, but=None),
]  # fmt: skip

REARRANGEMENTS = [
    Row("flip of two axes", lambda x: oc.flip(x, BOTH), lambda x: x.flip((0, 1)), TABLES, TYPES),
    Row("roll of two axes", lambda x: oc.roll(x, (2, -1), BOTH), lambda x: x.roll((2, -1), (0, 1)), TABLES, TYPES),
    *(Row(f"rot90 {k}", partial(oc.rot90, k=k, spec=BOTH), lambda x, k=k: x.rot90(k), TABLES, TYPES)
      for k in (-1, 0, 1, 2, 3)),
    Row("tile", lambda x: oc.tile(x, (2, 3), BOTH), lambda x: x.tile(2, 3, 1), (*TABLES, ((0, 2, 1),)), TYPES),
    Row("tile 0", lambda x: oc.tile(x, 0, BOTH), lambda x: x.tile(0, 0, 1), TABLES, KINDS),
    Row("repeat", lambda x: oc.repeat(x, 3, "h,w,c => h,c"), lambda x: x.repeat_interleave(3, 1), TABLES, TYPES),
    Row("repeat each", lambda x: oc.repeat(x, [2, 0, 3], "h,c => c"),
        lambda x: x.repeat_interleave(torch.tensor([2, 0, 3]), 0), (((3, 2),),), TYPES),
    *(Row(f"split {n}", lambda x, n=n: oc.split(x, 2, "h,c => c")[n], lambda x, n=n: x.split(2)[n], LINES, TYPES)
      for n in (0, 2)),
    Row("split by sizes", lambda x: oc.split(x, [1, 0, 4], "h,c => c")[2], lambda x: x.split([1, 0, 4])[2],
        (((5, 2),),), TYPES),
    *(Row(f"chunk {n}", lambda x, n=n: oc.chunk(x, 3, "h,c => c")[n], lambda x, n=n: x.chunk(3)[n], LINES, TYPES)
      for n in (0, 2)),
    *(Row(f"meshgrid {order}", lambda x, y, order=order: differences(oc.meshgrid(x, y, indexing=order)),
          lambda x, y, order=order: differences(torch.meshgrid(x, y, indexing=order)), (((3,), (2,)), ((1,), (4,))),
          TYPES)
      for order in ("xy", "ij")),
    Row("pixel_shuffle", lambda x: oc.pixel_shuffle(x, 2), channels_first(F.pixel_shuffle, upscale_factor=2),
        (((2, 3, 8),), ((1, 1, 4),)), TYPES),
    Row("pixel_unshuffle", lambda x: oc.pixel_unshuffle(x, 2),
        channels_first(F.pixel_unshuffle, downscale_factor=2), (((2, 4, 2),), ((2, 2, 1),)), TYPES),
    Row("channel_shuffle", lambda x: oc.channel_shuffle(x, 2), channels_first(torch.channel_shuffle, groups=2),
        (((2, 3, 6),), ((1, 1, 2),)), KINDS),
    Row("depth_to_space", lambda x: oc.depth_to_space(x, (2, 3)),
        lambda x: x.unflatten(-1, (2, 3, -1)).permute(0, 2, 1, 3, 4).flatten(0, 1).flatten(1, 2),
        (((2, 1, 12),), ((1, 2, 6),)), TYPES),
    Row("space_to_depth", lambda x: oc.space_to_depth(x, (2, 3)),
        lambda x: x.unflatten(0, (-1, 2)).unflatten(2, (-1, 3)).permute(0, 2, 1, 3, 4).flatten(2),
        (((4, 3, 2),), ((2, 6, 1),)), TYPES),
    Row("space_to_batch", lambda x: oc.space_to_batch(oc.einsum("nhwc => n|hwc", x), (2, 1), padding=((1, 1), (0, 2))),
        lambda x: F.pad(x, (0, 0, 0, 2, 1, 1)).unflatten(1, (-1, 2)).permute(2, 0, 1, 3, 4).flatten(0, 1),
        (((2, 4, 3, 1),), ((1, 2, 1, 2),)), TYPES),
    Row("batch_to_space", lambda x: oc.batch_to_space(oc.einsum("nhwc => n|hwc", x), (2, 1), crops=((1, 0), (0, 1))),
        lambda x: x.unflatten(0, (2, -1)).permute(1, 2, 0, 3, 4).flatten(1, 2)[:, 1:, :-1],
        (((4, 2, 3, 1),), ((2, 1, 2, 2),)), TYPES),
    Row("center_crop", lambda x: oc.center_crop(x, (3, 2)), lambda x: x[: 3, (x.shape[1] - 2) // 2 :][:, : 2],
        (((4, 5, 2),), ((3, 2, 1),)), TYPES),
]  # fmt: skip


def patches(x: Any, dilation: int = 1) -> Any:
    """The windows of 2 x 3 cells in the axes that `unfold` has here."""
    columns = F.unfold(x.movedim(-1, 0)[None], (2, 3), dilation=dilation)[0]
    return columns.unflatten(0, (-1, 2, 3)).unflatten(3, (x.shape[0] - dilation, -1)).permute(3, 4, 1, 2, 0)


WINDOWS = [
    Row("unfold", lambda x: oc.unfold(x, (2, 3)), patches, IMAGES[:2], KINDS),
    Row("unfold with dilation", lambda x: oc.unfold(x, (2, 3), dilation=2), partial(patches, dilation=2),
        (((4, 6, 2),), ((5, 5, 1),)), KINDS),
    Row("fold", lambda x: oc.fold(oc.unfold(x, (2, 3)), (2, 3)),
        channels_first(lambda x: F.fold(F.unfold(x, (2, 3)), x.shape[2:], (2, 3))), IMAGES[:2], KINDS, but=(1e15,)),
    *(Row(f"{name}2d to {size}", lambda x, name=name, size=size: getattr(oc, f"{name}2d")(x, size),
          channels_first(getattr(F, f"{name}2d"), output_size=size), IMAGES, KINDS, ties=False, but=(1e15,))
      for name in ("adaptive_avg_pool", "adaptive_max_pool") for size in (1, 2, (3, 2), 7)),
    *(Row(f"{name}1d", lambda x, name=name: getattr(oc, f"{name}1d")(x, 4),
          channels_first(getattr(F, f"{name}1d"), output_size=4), LINES, KINDS, ties=False, but=(1e15,))
      for name in ("adaptive_avg_pool", "adaptive_max_pool")),
    *(Row(f"adaptive_max_pool1d of {windows} windows", lambda x, size=size: oc.adaptive_max_pool1d(x, size),
          channels_first(F.adaptive_max_pool1d, output_size=size), (((cells, 2),),), KINDS, ties=False,
          but=(1e15,))
      for windows, cells, size in (("equal", 12, 4), ("regular", 15, 4), ("copied", 13, 7), ("shared", 3, 7))),
    *(Row(f"{name}3d", lambda x, name=name: getattr(oc, f"{name}3d")(x, 2),
          channels_first(getattr(F, f"{name}3d"), output_size=2), THREE_SPATIAL, KINDS, but=None)
      for name in ("adaptive_avg_pool", "adaptive_max_pool")),
    *(Row(f"lp_pool{n}d {p}", lambda x, n=n, p=p: getattr(oc, f"lp_pool{n}d")(x, 2, 1, p=p),
          channels_first(getattr(F, f"lp_pool{n}d"), norm_type=p, kernel_size=2, stride=1), shapes, "float64",
          low=0.1, but=None)
      for n, shapes in ((1, LINES), (2, IMAGES)) for p in (1, 2, 3, 2.5)),
    Row("lp_pool3d", lambda x: oc.lp_pool3d(x, 2, 1),
        channels_first(F.lp_pool3d, norm_type=2, kernel_size=2, stride=1), THREE_SPATIAL, KINDS, but=None),
    *(Row(f"local_response_norm {size}", partial(oc.local_response_norm, size=size, alpha=0.3, beta=0.6, k=2.0),
          channels_first(F.local_response_norm, size=size, alpha=0.3, beta=0.6, k=2.0),
          (((2, 3, 6),), ((1, 2, 1),)), KINDS, but=None)
      for size in (1, 2, 3, 5)),
]  # fmt: skip


def sampled(mode: str, padding: str, aligned: bool) -> Row:
    def theirs(x: Any, grid: Any) -> Any:
        settings = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
        return F.grid_sample(x.movedim(-1, 0)[None], grid[None], **settings)[0].movedim(0, -1)

    ours = partial(oc.grid_sample, mode=mode, padding=padding, align_corners=aligned)
    shapes: tuple[Any, ...] = (((4, 5, 2), (3, 2, 2)), ((1, 2, 1), (2, 2, 2)))
    if mode != "bicubic":
        shapes = (*shapes, ((2, 3, 4, 2), (2, 1, 2, 3)))
    kinds = KINDS if padding == "zeros" else "float64"
    return Row(f"grid_sample {mode} {padding} {aligned}", ours, theirs, shapes, kinds, -1.6, 1.6, but=None)


GRIDS = [
    *(sampled(mode, padding, aligned)
      for mode, settings in (("nearest", (False, True, False)), ("bilinear", (True, False, True)),
                             ("bilinear", (False, True, False)), ("bicubic", (False, True, True)))
      for padding, aligned in zip(("zeros", "border", "reflection"), settings, strict=True)),
    *(Row(f"affine_grid {len(size)} {aligned}",
          partial(oc.affine_grid, size=size, align_corners=aligned),
          lambda x, size=size, aligned=aligned: F.affine_grid(x[None], [1, 1, *size], align_corners=aligned)[0],
          (((len(size), len(size) + 1),),), KINDS, but=None)
      for size, aligned in (((3, 4), True), ((2, 3, 2), False), ((1, 2), False))),
]  # fmt: skip

ROWS = (
    *(row for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area") for row in resampled(mode)),
    interpolated("one axis", "linear", LINES, size=(9,)),
    interpolated("three axes", "trilinear", THREE_SPATIAL, size=(4, 3, 2)),
    Row("resize", lambda x: oc.resize(x, (5, 3)), channels_first(F.interpolate, size=(5, 3), mode="bilinear"), IMAGES,
        KINDS, but=None),
    *PADDING, *REARRANGEMENTS, *WINDOWS, *GRIDS,
)  # fmt: skip

MISSING = {"PyTorch draws other numbers, from another generator": "random_crop"}

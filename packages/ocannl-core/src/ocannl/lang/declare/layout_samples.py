"""Sample operands of the operations that resize, pad, divide and rearrange axes."""

from __future__ import annotations

from ocannl.lang.declare.samples import Draw, Sample, sample

LINE, TABLE, SQUARE = Draw(dims=(4,)), Draw(dims=(2, 3)), Draw(dims=(4, 4))
SIGNAL = {n: Draw(0.5, 4.0, dims=(3,) * n + (2,)) for n in (1, 2, 3)}
ROW, IMAGE = SIGNAL[1], Draw(0.5, 4.0, dims=(4, 4, 1))
BATCH = Draw(dims=(4, 2, 2, 1), batch_axes=1)
POSITIONS = Draw(-0.9, 0.9, dims=(2, 2))
TRANSFORM = Draw(-1.0, 1.0, dims=(2, 3))
ROWS, COLUMNS = "t,c => c", "t,c => t"

LAYOUT_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "resize": (sample(ROW, 5), sample(ROW, 5, mode="cubic"), sample(ROW, 2, antialias=True), sample(ROW, 40)),
    "interpolate": (sample(ROW, scale=2), sample(IMAGE, 3, mode="bilinear", align_corners=True)),
    "pad": (
        sample(LINE, 1), sample(LINE, (1, 2), value=9.0), sample(TABLE, 2, COLUMNS, mode="reflect"),
        sample(TABLE, 1, ROWS, mode="wrap"),
    ),
    "flip": (sample(LINE), sample(TABLE, "t,c => ")),
    "roll": (sample(LINE, 1), sample(TABLE, (1, -1), "t,c => ")),
    "rot90": (sample(TABLE), sample(TABLE, 2)),
    "tile": (sample(LINE, 2), sample(TABLE, (2, 1), "t,c => ")),
    "repeat": (sample(LINE, 2), sample(TABLE, [2, 0], ROWS)),
    "split": (sample(LINE, [1, 3]),),
    "chunk": (sample(LINE, 2),),
    "meshgrid": (sample(LINE, Draw(dims=(2,))), sample(LINE, Draw(dims=(2,)), indexing="ij")),
    "unfold": (sample(ROW, 2), sample(IMAGE, 2, 2)),
    "fold": (sample(Draw(dims=(2, 2, 1)), 2), sample(Draw(dims=(2, 2, 2, 2, 1)), 2, 2)),
    **dict.fromkeys(("depth_to_space", "pixel_shuffle"), (sample(Draw(dims=(1, 2, 4)), 2),)),
    **dict.fromkeys(("space_to_depth", "pixel_unshuffle"), (sample(IMAGE, 2),)),
    "channel_shuffle": (sample(LINE, 2),),
    "space_to_batch": (sample(Draw(dims=(1, 4, 2, 1), batch_axes=1), (2, 1)),),
    "batch_to_space": (sample(BATCH, 2), sample(BATCH, 2, crops=1)),
    "center_crop": (sample(IMAGE, 2),),
    "random_crop": (sample(IMAGE, (2, 3), key="crops", counter=0),),
    **{f"adaptive_avg_pool{n}d": (sample(SIGNAL[n], 2),) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": (sample(SIGNAL[n], 2),) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": (sample(Draw(0.5, 4.0, dims=(2,) * n + (1,)), 2),) for n in (1, 2, 3)},
    "local_response_norm": (sample(LINE, 3, alpha=0.5),),
    "grid_sample": (sample(IMAGE, POSITIONS), sample(IMAGE, POSITIONS, mode="bicubic", padding="border")),
    "affine_grid": (sample(TRANSFORM, (2, 2)),),
}  # fmt: skip
"""Samples by the name of the function."""

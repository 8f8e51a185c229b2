"""Gathers, scatters, segments and counts beside those of PyTorch."""

from __future__ import annotations

import numpy as np
from torch_row import INFINITE, NUMBERS, Row, torch

import ocannl as oc

KINDS = "float32 float64"
COLUMN = "ij => j"  # along i
POSITIONS = np.array([[2, 0, 2], [0, 0, 1]], "int32")
DISTINCT = np.array([[2, 0, 1], [0, 3, 2]], "int32")
TUPLES = np.array([[2, 0], [0, 1], [2, 2]], "int32")
REPEATED = np.array([3, 0, 3], "int32")
IDS = np.array([1, 4, 1, 0], "int32")
TABLES = (((4, 3),), ((6, 3),))
UPDATES = (((4, 3), (2, 3)), ((6, 3), (2, 3)))
ROW_UPDATES = (((4, 3), (3, 3)), ((5, 1), (3, 1)), ((4, 0), (3, 0)))
TORCH_MODES = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
ROWS_OF_SEGMENTS = (((4, 3),), ((4, 1),))
EMPTY_SEGMENTS = torch.tensor([0, 0, np.nan, np.nan, 0])[:, None]
positions, distinct, ids, repeated = (torch.tensor(a.astype("int64")) for a in (POSITIONS, DISTINCT, IDS, REPEATED))


def scattered(x, v, mode):
    return x.scatter_reduce(0, positions, v, TORCH_MODES[mode])


def updated(x, v, mode):
    return x.scatter_reduce(0, repeated[:, None].expand(v.shape), v, TORCH_MODES[mode])


def segments(x, mode):
    """The reduction of rows by `IDS`, whose segments 2 and 3 are empty."""
    start = {"prod": 1, "amax": -np.inf, "amin": np.inf}.get(mode, 0)
    base = torch.full((5, x.shape[1]), start, dtype=x.dtype)
    return base.scatter_reduce(0, ids[:, None].expand(x.shape), x, mode, include_self=mode != "mean")


ROWS = (
    Row("take_along_axis", lambda x: oc.take_along_axis(x, POSITIONS, COLUMN), lambda x: x.gather(0, positions), TABLES,
        NUMBERS),
    Row("gather_nd", lambda x: oc.gather_nd(x, TUPLES), lambda x: x[TUPLES[:, 0], TUPLES[:, 1]], TABLES, NUMBERS),
    Row("put_along_axis", lambda x, v: oc.put_along_axis(x, DISTINCT, v, COLUMN),
        lambda x, v: x.scatter(0, distinct, v), UPDATES, NUMBERS),
    *(Row(f"put_along_axis {mode}", lambda x, v, mode=mode: oc.put_along_axis(x, POSITIONS, v, COLUMN, mode=mode),
          lambda x, v, mode=mode: scattered(x, v, mode), UPDATES, KINDS, but=None if mode == "mul" else (-0.0,))
      for mode in TORCH_MODES),
    Row("index_update", lambda x, v: oc.index_update(x, REPEATED[:2], v), lambda x, v: x.index_copy(0, repeated[:2], v),
        (((4, 3), (2, 3)), ((5, 1), (2, 1))), NUMBERS),
    Row("index_update of one value", lambda x: oc.index_update(x, REPEATED, 2.0),
        lambda x: x.index_fill(0, repeated, 2.0), TABLES, KINDS),
    Row("index_update add", lambda x, v: oc.index_update(x, REPEATED, v, mode="add"),
        lambda x, v: x.index_add(0, repeated, v), ROW_UPDATES, NUMBERS),
    *(Row(f"index_update {mode}", lambda x, v, mode=mode: oc.index_update(x, REPEATED, v, mode=mode),
          lambda x, v, mode=mode: updated(x, v, mode), ROW_UPDATES, KINDS, smooth=False)
      for mode in ("mul", "max", "min")),
    Row("scatter_nd", lambda x, v: oc.scatter_nd(x, TUPLES, v),
        lambda x, v: x.index_put((torch.tensor(TUPLES[:, 0]), torch.tensor(TUPLES[:, 1])), v), (((4, 3), (3,)),),
        KINDS),
    Row("segment_sum", lambda x: oc.segment_sum(x, IDS, 5), lambda x: segments(x, "sum"), ROWS_OF_SEGMENTS, KINDS),
    *(Row(f"segment_{name}", lambda x, name=name: getattr(oc, f"segment_{name}")(x, IDS, 5),
          lambda x, mode=mode: segments(x, mode), ROWS_OF_SEGMENTS, KINDS, but=None if name == "prod" else INFINITE)
      for name, mode in {"prod": "prod", "max": "amax", "min": "amin"}.items()),
    Row("segment_mean", lambda x: oc.segment_mean(oc.index_update(x, 0, 1.0), IDS, 5),
        lambda x: segments(x.index_fill(0, torch.tensor([0]), 1.0), "mean") + EMPTY_SEGMENTS, ROWS_OF_SEGMENTS, KINDS),
    Row("bincount", lambda w: oc.bincount(IDS, 5, w), lambda w: torch.zeros(5, dtype=w.dtype).index_add(0, ids, w),
        (((4,),),), KINDS),
    Row("histogram", lambda x: oc.histogram(x, 6, (-1.0, 2.0)), lambda x: torch.histc(x, 6, -1.0, 2.0).int(),
        (((4, 5),), ((0,),)), KINDS, smooth=False, but=(*INFINITE, np.nan)),
    Row("searchsorted", lambda x: oc.searchsorted(np.sort(IDS - 1.5), x),
        lambda x: torch.searchsorted(torch.tensor(np.sort(IDS - 1.5)).to(x.dtype), x), (((4, 5),), ((1, 0),)), KINDS,
        smooth=False),
    Row("digitize", lambda x: oc.digitize(x, np.sort(IDS - 1.5)),
        lambda x: torch.bucketize(x, torch.tensor(np.sort(IDS - 1.5)).to(x.dtype), right=True), (((4, 5),),), KINDS,
        smooth=False),
    Row("nonzero", lambda x: oc.nonzero(x, 8), lambda x: torch.cat([torch.nonzero(x), -torch.ones(8, 2).int()])[:8],
        (((3, 5),), ((0, 2),)), KINDS, smooth=False),
)  # fmt: skip

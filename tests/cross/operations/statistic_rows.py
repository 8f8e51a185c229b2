"""Statistics and products of vectors beside those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch_row import FILLED, INFINITE, MATRIX, NUMBERS, UNARY, Row, torch

import ocannl as oc

KINDS = "float32 float64"
HOLES = np.array([[0, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], bool)
TALL = (((3, 5),), ((1, 4),), ((4, 2),))
TERNARY = (((4, 3), (4, 3)), ((3,), (3,)), ((2, 1, 3), (5, 3)), ((0, 3), (3,)))


def holed(x: Any) -> Any:
    """A matrix with NaN in some cells, and in all of the second row."""
    return oc.where(oc.tensor(HOLES[: x.dims[0], : x.dims[1]].astype("int32")), np.nan, x)


def torch_holed(x: Any) -> Any:
    return x.masked_fill(torch.tensor(HOLES[: x.shape[0], : x.shape[1]]), torch.nan)


def without_holes(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of the numbers of each row; NaN for rows without numbers."""

    def call(x: Any) -> Any:
        rows = [row[~row.isnan()] for row in torch_holed(x)]
        return torch.stack([function(row) if len(row) else row.sum() * torch.nan for row in rows])

    return call


def holes(name: str, theirs: Callable[..., Any], **settings: Any) -> Row:
    ours = getattr(oc, name)
    title = f"{name} of a sample" if settings else name
    return Row(title, lambda x: ours(holed(x), "ij => i", **settings), theirs, (((3, 5),), ((1, 3),)), KINDS, but=None)


ROWS = (
    holes("nansum", lambda x: torch_holed(x).nansum(1)),
    holes("nanprod", lambda x: torch.where(torch_holed(x).isnan(), 1.0, x).prod(1)),
    holes("nanmean", lambda x: torch_holed(x).nanmean(1)),
    holes("nanmax", without_holes(torch.amax)),
    holes("nanmin", without_holes(torch.amin)),
    holes("nanvar", without_holes(lambda row: row.var(correction=0))),
    holes("nanstd", without_holes(lambda row: (row.var(correction=0) + 0.0).sqrt() if len(row) > 1 else row.sum() * 0)),
    Row("nansum of all", oc.nansum, torch.nansum, UNARY, KINDS),
    Row("nanmean of all", oc.nanmean, torch.nanmean, UNARY, KINDS),
    Row("nansum of integers", lambda x: oc.nansum(x, "ij => i"), lambda x: x.sum(1, dtype=x.dtype), MATRIX, NUMBERS,
        but=None),
    Row("nanmax of integers", lambda x: oc.nanmax(x, "ij => i"), lambda x: x.amax(1), FILLED, NUMBERS, but=None),
    Row("ptp", lambda x: oc.ptp(x, "ij => i"), lambda x: x.amax(1) - x.amin(1), FILLED, NUMBERS, but=INFINITE),
    Row("moments", lambda x: sum(oc.moments(x, "ij => i")), lambda x: x.mean(1) + x.var(1, correction=0), MATRIX,
        KINDS),
    Row("average", lambda x, w: oc.average(x, w, "ij; j => i"), lambda x, w: (x * w).sum(1) / w.sum(),
        (((3, 4), (4,)), ((1, 1), (1,)), ((2, 0), (0,))), KINDS, low=0.3, but=INFINITE),
    Row("average of all", oc.average, lambda x, w: (x * w).sum() / w.sum(), (((3, 4), (3, 4)), ((1,), (1,))), KINDS,
        low=0.3, but=INFINITE),
    Row("cov", oc.cov, torch.cov, (((3, 5),), ((2, 2),)), KINDS, but=(*INFINITE, 1e15)),
    Row("cov of a population", lambda x: oc.cov(x, sample=False),
        lambda x: torch.atleast_2d(torch.cov(x, correction=0)), TALL, KINDS, but=None),
    Row("corrcoef", oc.corrcoef, torch.corrcoef, (((3, 5),), ((2, 3),)), KINDS, but=None),
    Row("cross", oc.cross, lambda x, y: torch.linalg.cross(*torch.broadcast_tensors(x, y)), TERNARY, KINDS),
    Row("kron", oc.kron, torch.kron, (((3, 2), (2, 4)), ((1, 1), (2, 3)), ((3,), (4,)), ((2, 0), (2, 3))), KINDS),
)  # fmt: skip

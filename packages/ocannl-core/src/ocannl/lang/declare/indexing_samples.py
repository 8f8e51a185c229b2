"""Sample operands of the operations that index, scatter, count and order."""

from __future__ import annotations

import numpy as np

from ocannl.lang.declare.samples import Draw, Sample, sample

TABLE, ROWS, CELLS = Draw(dims=(3, 2)), Draw(0.5, 2.0, dims=(3, 2)), Draw(-4.0, -2.5, dims=(3, 2))
IDS, REPEATED = np.array([2, 0, 1], "int32"), np.array([2, 0, 2], "int32")
EDGES = np.array([-1.0, 0.0, 1.0], "float32")
SEGMENTS = np.array([1, 0, 1], "int32")
INDICES = np.array([[2, 0], [2, 1], [0, 1]], "int32")

INDEXING_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "take_along_axis": (sample(TABLE, INDICES, "tc => c"),),
    "gather_nd": (sample(TABLE, INDICES),),
    "index_update": (sample(TABLE, REPEATED, CELLS), sample(TABLE, REPEATED, ROWS, mode="mul")),
    "put_along_axis": (sample(TABLE, INDICES, CELLS, "tc => c"), sample(TABLE, INDICES, CELLS, "tc => c", mode="max")),
    "scatter_nd": (sample(TABLE, INDICES, Draw(dims=(3,)), mode="add"),),
    **dict.fromkeys(
        ("segment_sum", "segment_prod", "segment_mean", "segment_max", "segment_min"), (sample(ROWS, SEGMENTS, 2),)
    ),
    "bincount": (sample(REPEATED, 3, Draw(dims=(3,))), sample(REPEATED, 3)),
    "histogram": (sample(TABLE, 2, (-1.0, 1.0)),),
    "searchsorted": (sample(EDGES, TABLE),),
    "digitize": (sample(TABLE, EDGES),),
    "nonzero": (sample(EDGES, 2),),
    "unique": (sample(REPEATED, 2),),
    **dict.fromkeys(("sort", "argsort", "median"), (sample(TABLE, "tc => c"),)),
    "topk": (sample(TABLE, 2, "tc => c"),),
    "quantile": (sample(TABLE, 0.3, "tc => c"), sample(TABLE, [0.25, 0.75], "tc => c")),
    "kthvalue": (sample(TABLE, 2, "tc => c"),),
}
"""Samples by the name of the function."""

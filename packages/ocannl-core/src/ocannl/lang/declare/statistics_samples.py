"""Sample operands of norms, distances, statistics, products and random numbers."""

from __future__ import annotations

import numpy as np

from ocannl.lang.declare.samples import Draw, Sample, sample

MATRIX, TABLE = Draw(avoid=(0.0,)), Draw(3.0, 5.0, (4, 3))
QUERIES, KEYS = Draw(dims=(2, 2, 3), batch_axes=1), Draw(dims=(4, 1, 3), batch_axes=1)

NAMES = {"key": "noise", "counter": 0}
SIX = {"output": [6], **NAMES}

RANDOM_SAMPLES: dict[str, tuple[Sample, ...]] = {
    **dict.fromkeys(
        ("exponential", "laplace", "logistic", "gumbel", "truncated_normal", "rademacher"), (sample(**SIX),)
    ),
    "gamma": (sample(2.0, **SIX),),
    "beta": (sample(2.0, 3.0, **SIX),),
    "poisson": (sample(4.0, **SIX),),
    "multinomial": (sample(10, np.array([0.5, 0.3, 0.2], "float32"), **NAMES),),
    "categorical": (sample(np.array([0.0, 1.0, -1.0], "float32"), samples=6, **NAMES),),
    "permutation": (sample(6, **NAMES),),
    "choice": (sample(Draw(dims=(4, 2)), 3, **NAMES), sample(10, 6, replace=False, **NAMES)),
}  # fmt: skip
"""Samples of random numbers, by the name of the function."""

STATISTICS_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "norm": (
        sample(MATRIX), sample(MATRIX, "ij => i"), sample(MATRIX, "ij => i", ord=3), sample(MATRIX, ord=-2),
        sample(MATRIX, ord=float("-inf")),
    ),
    "matrix_norm": (sample(MATRIX), sample(MATRIX, ord=1), sample(MATRIX, ord=float("-inf"))),
    **dict.fromkeys(
        ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "ptp", "moments"),
        (sample(MATRIX), sample(MATRIX, "ij => i")),
    ),
    "average": (sample(MATRIX, Draw(0.5, 2.0)), sample(MATRIX, Draw(0.5, 2.0, (3,)), "i,j; j => i")),
    **dict.fromkeys(("cov", "corrcoef"), (sample(Draw(dims=(3, 4))),)),
    "cross": (sample(MATRIX, Draw(0.5, 2.0)),),
    "kron": (sample(MATRIX, Draw(0.5, 2.0, (2, 2))), sample(Draw(dims=(2,)), Draw(0.5, 2.0, (3,)))),
    "normalize": (sample(MATRIX), sample(MATRIX, "ij => i", ord=1)),
    "cosine_similarity": (sample(MATRIX, Draw(0.5, 2.0)),),
    "cdist": (sample(MATRIX, TABLE), sample(MATRIX, TABLE, p=1), sample(MATRIX, TABLE, p=3.5)),
    "pairwise_distance": (sample(MATRIX, Draw(3.0, 5.0)),),
    "scaled_dot_product_attention": (
        sample(QUERIES, KEYS, KEYS), sample(QUERIES, KEYS, KEYS, causal=True, scale=0.5),
    ),
}  # fmt: skip
"""Samples by the name of the function."""

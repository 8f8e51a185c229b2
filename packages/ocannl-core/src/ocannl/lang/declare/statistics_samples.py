"""Sample operands of norms, distances, statistics and products."""

from __future__ import annotations

from ocannl.lang.declare.samples import Draw, Sample, sample

MATRIX, OTHER = Draw(avoid=(0.0,)), Draw(3.0, 5.0, (4, 3))

STATISTICS_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "norm": (
        sample(MATRIX), sample(MATRIX, "ij => i"), sample(MATRIX, "ij => i", ord=3), sample(MATRIX, ord=-2),
        sample(MATRIX, ord=float("-inf")),
    ),
    "matrix_norm": (sample(MATRIX), sample(MATRIX, ord=1), sample(MATRIX, ord=float("-inf"))),
    "normalize": (sample(MATRIX), sample(MATRIX, "ij => i", ord=1)),
    "cosine_similarity": (sample(MATRIX, Draw(0.5, 2.0)),),
    "cdist": (sample(MATRIX, OTHER), sample(MATRIX, OTHER, p=1), sample(MATRIX, OTHER, p=3.5)),
    "pairwise_distance": (sample(MATRIX, Draw(3.0, 5.0)),),
}  # fmt: skip
"""Samples by the name of the function."""

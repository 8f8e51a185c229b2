"""Norms and distances beside those of PyTorch."""

from __future__ import annotations

from math import inf

from torch_row import INFINITE, MATRIX, UNARY, F, Row, torch

import ocannl as oc

KINDS = "float32 float64"
ORDERS = (0, 0.5, 3, 3.5, -1, -2.5, -inf)
PAIRS = (((3, 4), (5, 4)), ((1, 1), (2, 1)), ((2, 3), (1, 3)), ((0, 3), (2, 3)))
SAME_ROWS = (((3, 4), (3, 4)), ((1, 1), (1, 1)), ((2, 3), (2, 3)))


def length(order: float, x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(x, order, dim=1)



ROWS = (
    *(Row(f"norm of order {order}", lambda x, order=order: x.norm("ij => i", ord=order),
          lambda x, order=order: length(order, x), (((3, 5),), ((5, 1),), ((1, 4),)), KINDS, but=None)
      for order in ORDERS),
    *(Row(f"norm of order {order} with zeros", lambda x, order=order: oc.relu(x).norm("ij => i", ord=order),
          lambda x, order=order: length(order, torch.relu(x)), (((3, 5),), ((5, 1),)), KINDS, but=None)
      for order in (0, 1, 1.5, 2, 3)),
    Row("norm of no cells", lambda x: x.norm("ij => i", ord=3), lambda x: length(3, x), (((3, 0),), ((0, 3),)), KINDS),
    *(Row(f"matrix_norm {order}", lambda x, order=order: oc.matrix_norm(x, ord=order),
          lambda x, order=order: torch.linalg.matrix_norm(x, order), (((3, 5),), ((1, 4),), ((4, 1),)), KINDS)
      for order in ("fro", 1, -1, inf, -inf)),
    Row("normalize", lambda x: oc.normalize(x, "ij => i"), F.normalize, MATRIX, KINDS, but=(*INFINITE, 1e15)),
    Row("normalize by another order", lambda x: oc.normalize(x, "ij => j", ord=3), lambda x: F.normalize(x, 3, 0),
        MATRIX, KINDS, but=None),
    Row("normalize of zeros", lambda x: oc.normalize(oc.relu(x), "ij => i"), lambda x: F.normalize(torch.relu(x)),
        MATRIX, KINDS, but=None),
    Row("cosine_similarity", lambda x, y: oc.cosine_similarity(oc.einsum("ij => i|j", x), oc.einsum("ij => i|j", y)),
        F.cosine_similarity, SAME_ROWS, KINDS, but=None),
    Row("pairwise_distance", lambda x, y: oc.pairwise_distance(oc.einsum("ij => i|j", x), oc.einsum("ij => i|j", y)),
        F.pairwise_distance, SAME_ROWS, KINDS, but=None),
    *(Row(f"cdist of order {order}", lambda x, y, order=order: oc.cdist(x, y, p=order),
          lambda x, y, order=order: torch.cdist(x, y, order, "donot_use_mm_for_euclid_dist"), PAIRS, KINDS, but=None)
      for order in (1, 1.5, 2, 3, inf)),
    Row("cdist of one matrix", lambda x: oc.cdist(x, x), lambda x: torch.cdist(x, x, 2, "donot_use_mm_for_euclid_dist"),
        (((4, 3),), ((1, 2),)), KINDS, but=None),
    Row("norm", lambda x: x.norm(), torch.linalg.vector_norm, UNARY, KINDS),
)  # fmt: skip

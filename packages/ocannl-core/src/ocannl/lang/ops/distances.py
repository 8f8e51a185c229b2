"""Distances between vectors: between two output rows, or between all rows of two matrices."""

from __future__ import annotations

import math

from ocannl.base.errors import DataError
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.norms import norm_of_order, root_of_norm, vector_norm
from ocannl.lang.ops.reduced_axes import OUTPUT_ROW, ReducedAxes

_ALL_PAIRS = einsum(parse("...|i,d; ...|j,d => ...|i,j"))


@composite
def cdist(x: object, y: object, *, p: float = 2) -> Tensor:
    """The distance of the order `p` between each row of `x` and each row of `y`: the norm of their difference.

    Differences are computed cell by cell, not by inner products, so close vectors have accurate distances.

    Shapes: `..b..|i,d; ..b..|j,d => ..b..|i,j`.
    Grad:   the derivatives of the norm, summed over the pairs; 0 from equal vectors.
    Raises: DataError for a negative order, or one that is no number; ShapeError.
    """
    if not is_number(p) or not p >= 0:
        raise DataError(f"the order of oc.cdist is a number from 0 on, or infinity, not {p!r}"[:200])
    op, cell = norm_of_order(p)

    def distance(a: Term, b: Term) -> Term:
        return cell(a - b)

    return root_of_norm(apply(contraction("cdist", _ALL_PAIRS, distance, op), [embed(x), embed(y)]), p)


@composite
def pairwise_distance(x: object, y: object, *, p: float = 2, eps: float = 1e-6) -> Tensor:
    """The norm of the order `p` of `x - y + eps`, over the output row.

    Shapes: `..b..|..i..->..o..; ..b..|..i..->..o.. => ..b..|..i..->`, every row broadcasting.
    Grad:   the derivatives of the norm.
    Raises: DataError for an order that is no number; ShapeError.
    """
    if not (is_number(eps) and math.isfinite(python_number(eps))):
        raise DataError(f"`eps` of oc.pairwise_distance must be a finite number, not {eps!r}"[:200])
    difference = embed(x) - embed(y) + float(eps)
    return vector_norm(ReducedAxes(difference, OUTPUT_ROW, {}, {}), p, "pairwise_distance")


REGISTRY.update(cdist=cdist, pairwise_distance=pairwise_distance)

"""Linear algebra on output axes, for each cell of the batch row: named einsum specs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.index_tensors import indices


@composite
def dot(x: object, y: object) -> Tensor:
    """The inner product over the output row.

    Shapes: `..b..|..o..; ..b..|..o.. => ..b..|`.
    Grad:   to `x` `g * y`; to `y` `g * x`.
    Raises: ShapeError.
    """
    return einsum("...|..o..; ...|..o.. => ...|", x, y)


@composite
def outer(x: object, y: object) -> Tensor:
    """The outer product of two vectors.

    Shapes: `..b..|i; ..b..|j => ..b..|i,j`.
    Grad:   to `x` the sum of `g * y` over `j`; to `y` the sum of `g * x` over `i`.
    Raises: ShapeError.
    """
    return einsum("...|i; ...|j => ...|i,j", x, y)


@composite
def diag(x: object) -> Tensor:
    """The diagonal matrix of a vector.

    Shapes: `..b..|i => ..b..|i,i`.
    Grad:   the diagonal of `g`.
    Raises: ShapeError.
    """
    return einsum("...|i => ...|ii", x)


@composite
def diagonal(x: object) -> Tensor:
    """The diagonal of a square matrix.

    Shapes: `..b..|i,i => ..b..|i`.
    Grad:   `g` on the diagonal, 0 elsewhere.
    Raises: ShapeError.
    """
    return einsum("...|ii => ...|i", x)


@composite
def trace(x: object) -> Tensor:
    """The trace of a square matrix: the sum of its diagonal.

    Shapes: `..b..|i,i => ..b..|`.
    Grad:   `g` on the diagonal, 0 elsewhere.
    Raises: ShapeError.
    """
    return einsum("...|ii => ...|", x)


@composite
def triu(x: object, k: int = 0) -> Tensor:
    """The upper triangle of a matrix: zeros below the diagonal, or below the diagonal `k` columns to its right.

    Shapes: `..b..|i,j => ..b..|i,j`.
    Grad:   `g` in the triangle, 0 elsewhere.
    Raises: CodeError unless `k` is an integer; ShapeError.
    """
    return _triangle(x, "triu", k, lambda offset: offset >= k)


@composite
def tril(x: object, k: int = 0) -> Tensor:
    """The lower triangle of a matrix: zeros above the diagonal, or above the diagonal `k` columns to its right.

    Shapes: `..b..|i,j => ..b..|i,j`.
    Grad:   `g` in the triangle, 0 elsewhere.
    Raises: CodeError unless `k` is an integer; ShapeError.
    """
    return _triangle(x, "tril", k, lambda offset: offset <= k)


_MATRIX = einsum_logic(parse("...|i,j; i; j => ...|i,j"))


def _triangle(x: object, name: str, k: int, keeps: Callable[[Term], Term]) -> Tensor:
    if is_bool(k) or not isinstance(k, int | np.integer):
        raise CodeError(f"oc.{name}: the offset of the diagonal must be an integer, not {k!r}")

    def kept(v: Term, row: Term, column: Term) -> Term:
        return term("where", keeps(column - row), v, 0)

    operation = contraction(name, _MATRIX, kept, None, result_type=ResultType(weak_operands=frozenset({1, 2})))
    return apply(operation, [embed(x), indices(), indices()])


REGISTRY.update(dot=dot, outer=outer, diag=diag, diagonal=diagonal, trace=trace, triu=triu, tril=tril)

"""Vectors and matrices along output axes, for each cell of the batch row: einsum specs with names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.literals import is_truth
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term
from ocannl.lang.core.terms import apply as term
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.index_tensors import indices


@composite
def dot(x: object, y: object) -> Tensor:
    """The sum of the products of cells, over the whole output row.

    Shapes: `..b..|..o..; ..b..|..o.. => ..b..|`.
    Grad:   to `x` `g * y`; to `y` `g * x`.
    Raises: ShapeError.
    """
    return einsum("...|..o..; ...|..o.. => ...|", x, y)


@composite
def outer(x: object, y: object) -> Tensor:
    """The product of each cell with each cell.

    Shapes: `..b..|i; ..b..|j => ..b..|i,j`.
    Grad:   to `x` the sums of `g * y`; to `y` those of `g * x`.
    Raises: ShapeError.
    """
    return einsum("...|i; ...|j => ...|i,j", x, y)


@composite
def diag(x: object) -> Tensor:
    """The matrix with a vector on its diagonal, and zeros beside it.

    Shapes: `..b..|i => ..b..|i,i`.
    Grad:   the diagonal of what arrives.
    Raises: ShapeError.
    """
    return einsum("...|i => ...|ii", x)


@composite
def diagonal(x: object) -> Tensor:
    """The diagonal of a square matrix.

    Shapes: `..b..|i,i => ..b..|i`.
    Grad:   what arrives, on the diagonal.
    Raises: ShapeError.
    """
    return einsum("...|ii => ...|i", x)


@composite
def trace(x: object) -> Tensor:
    """The sum of the diagonal of a square matrix.

    Shapes: `..b..|i,i => ..b..|`.
    Grad:   what arrives, on the diagonal.
    Raises: ShapeError.
    """
    return einsum("...|ii => ...|", x)


@composite
def triu(x: object, k: int = 0) -> Tensor:
    """A matrix with zeros below its diagonal, or below the one `k` places to the right.

    Shapes: `..b..|i,j => ..b..|i,j`.
    Grad:   what arrives, where the matrix is kept.
    Raises: CodeError when `k` is no integer; ShapeError.
    """
    return _triangle(x, "triu", k, lambda apart: apart >= k)


@composite
def tril(x: object, k: int = 0) -> Tensor:
    """A matrix with zeros above its diagonal, or above the one `k` places to the right.

    Shapes: `..b..|i,j => ..b..|i,j`.
    Grad:   what arrives, where the matrix is kept.
    Raises: CodeError when `k` is no integer; ShapeError.
    """
    return _triangle(x, "tril", k, lambda apart: apart <= k)


_MATRIX = einsum_logic(parse("...|i,j; i; j => ...|i,j"))


def _triangle(x: object, name: str, k: int, keeps: Callable[[Term], Term]) -> Tensor:
    if is_truth(k) or not isinstance(k, int | np.integer):
        raise CodeError(f"oc.{name}: a diagonal is so many places to the right, an integer, and not {k!r}")

    def kept(v: Term, row: Term, column: Term) -> Term:
        return term("where", keeps(column - row), v, 0)

    operation = contraction(name, _MATRIX, kept, None, weak_operands=frozenset({1, 2}))
    return apply(operation, [embed(x), indices(), indices()])


REGISTRY.update(dot=dot, outer=outer, diag=diag, diagonal=diagonal, trace=trace, triu=triu, tril=tril)

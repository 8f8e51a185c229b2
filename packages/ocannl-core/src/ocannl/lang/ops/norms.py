"""Norms of vectors and matrices, of any order, and vectors of unit length."""

from __future__ import annotations

import math
import sys
from typing import Any

from ocannl.base.errors import CodeError, DataError
from ocannl.ir.ops import ADD, MAX, MIN, Op
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.elementwise import root_
from ocannl.lang.ops.elementwise_decorator import formula, require_positive
from ocannl.lang.ops.reduced_axes import OUTPUT_ROW, Formula, ReducedAxes, axes_to_reduce


def _magnitude(v: Term) -> Term:
    return term("abs", v)


def _square(v: Term) -> Term:
    return v * v


def _is_nonzero(v: Term) -> Term:
    return term("where", term("ne", v, 0.0), 1.0, 0.0)


_OF_ORDER: dict[float, tuple[Op, Formula]] = {
    0: (ADD, _is_nonzero), 1: (ADD, _magnitude), 2: (ADD, _square), math.inf: (MAX, _magnitude),
    -math.inf: (MIN, _magnitude),
}  # fmt: skip
"""The reduction and the formula of each cell; orders not listed sum powers."""


@formula(lambda g, v, x, order: term("where", term("eq", x, 0.0), 0.0, g * v / (order * x)))
def root_of_order_(x: Term, *, order: float) -> Term:
    """The root of a sum of powers, whose gradient at 0 is defined as 0."""
    return x ** (1.0 / order)


def norm_of_order(order: float) -> tuple[Op, Formula]:
    """The reduction of a norm, and the formula of each cell."""
    p = python_number(order)
    return _OF_ORDER.get(p, (ADD, lambda v: term("abs", v) ** p))


def root_of_norm(reduced: Tensor, order: float) -> Tensor:
    """The norm, from its reduction."""
    p = python_number(order)
    if p == 2:
        return root_(reduced)  # type: ignore[no-any-return]
    return reduced if p in _OF_ORDER else root_of_order_(reduced, order=p)


def vector_norm(axes: ReducedAxes, order: float, title: str) -> Tensor:
    """The norm over the reduced axes. Raises: DataError for an order that is no number."""
    if not is_number(order) or not (abs(order) <= sys.float_info.max or abs(order) == math.inf):
        raise DataError(f"the order of oc.{title} is a number, or an infinity, not {order!r}"[:200])
    op, cell = norm_of_order(order)
    return root_of_norm(axes.reduce(op, title, cell), order)


@composite
def norm(x: object, spec: str | None = None, *, ord: float = 2, **names: Any) -> Tensor:
    """The vector norm over the axes that a one-operand spec removes, or over all axes.

    The norm of the order p is `sum(abs(x)**p)**(1/p)`, for any number p, and so 2 is the Euclidean norm, of a matrix
    the Frobenius norm; `math.inf` is the largest magnitude, `-math.inf` the smallest, and 0 the number of nonzero
    cells.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   for `ord=2`, `g * x / v`; for another number p, `g * sign(x) * (abs(x) / v)**(p - 1)`; 0 at the origin, and
            for p = 0. For the infinities, that of the largest or smallest of `abs(x)`.
    Raises: DataError for an order that is no number; EinsumSyntaxError; ShapeError.
    """
    return vector_norm(axes_to_reduce(x, spec, names, "norm"), ord, "norm")


@composite
def matrix_norm(x: object, *, ord: str | float = "fro") -> Tensor:
    """The norm of a matrix: the Frobenius norm `"fro"`, the largest sum of magnitudes in a column, 1, or in a row,
    `math.inf`; -1 and `-math.inf` are the smallest of these sums.

    Shapes: `..b..|i,j => ..b..|`.
    Grad:   that of the sums, in equal shares to equal ones; for `"fro"` `g * x / v`, and 0 at the origin.
    Raises: CodeError for another order; ShapeError.
    """
    orders = {"fro": None, 1: ("j", MAX), -1: ("j", MIN), math.inf: ("i", MAX), -math.inf: ("i", MIN)}
    if not isinstance(ord, str | int | float) or ord not in orders:
        raise CodeError(f'ord={ord!r} is not supported; the norms of matrices are "fro", 1, -1, inf and -inf')
    by = orders[ord]
    if by is None:
        return vector_norm(axes_to_reduce(x, "...|i,j => ...|", {}, "matrix_norm"), 2, "matrix_norm")
    axis, op = by
    sums = vector_norm(axes_to_reduce(x, f"...|i,j => ...|{axis}", {}, "matrix_norm"), 1, "matrix_norm")
    return axes_to_reduce(sums, f"...|{axis} => ...|", {}, "matrix_norm").reduce(op, "matrix_norm")


@composite
def normalize(x: object, spec: str | None = None, *, ord: float = 2, eps: float = 1e-12, **names: Any) -> Tensor:
    """`x / max(norm(x), eps)`, with the norm over the output row, or over the axes that the spec removes.

        oc.normalize(x, "...|t,c => ...|t")  # each row of c

    Shapes: those of `x`.
    Grad:   the derivative of the formula; `g / eps` where the norm is less than `eps`.
    Raises: DataError for an order that is no number, or an `eps` that is not positive; EinsumSyntaxError; ShapeError.
    """
    require_positive(eps, "eps", "normalize")
    axes = axes_to_reduce(x, spec, names, "normalize", OUTPUT_ROW)
    length = vector_norm(axes, ord, "normalize")
    return axes.combine_with_reduced(axes.x, length, lambda v, n: v / term("max", n, float(eps)), "normalize")


@composite
def cosine_similarity(x: object, y: object, *, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between two output rows: the inner product of `x / max(norm(x), eps)` and
    `y / max(norm(y), eps)`.

    Shapes: `..b..|..i..->..o..; ..b..|..i..->..o.. => ..b..|..i..->`.
    Grad:   the derivatives of the formula; those of the norms are 0 at the origin.
    Raises: DataError unless `eps` is positive; ShapeError.
    """
    require_positive(eps, "eps", "cosine_similarity")
    unit = [normalize(embed(t), "..b..|..i..->..o.. => ..b..|..i..->", eps=eps) for t in (x, y)]
    product = unit[0] * unit[1]
    return ReducedAxes(product, OUTPUT_ROW, {}, {}).reduce(ADD, "cosine_similarity")


REGISTRY.update(norm=norm, matrix_norm=matrix_norm, normalize=normalize, cosine_similarity=cosine_similarity)

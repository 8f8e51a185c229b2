"""Statistics: reductions that leave NaN out, ranges, weighted means, and covariances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ocannl.infer.logic import pointwise
from ocannl.ir.ops import ADD, MAX, MIN, MUL
from ocannl.ir.precision import float32, int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import einsum, without_gradient
from ocannl.lang.ops.elementwise import clip, root_
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.reduced_axes import ReducedAxes, axes_to_reduce, cells_per_result
from ocannl.lang.ops.reductions import mean, var


def _is_number(v: Term) -> Term:
    return term("eq", v, v)


def _number_or(replacement: float) -> Callable[[Term], Term]:
    return lambda v: term("where", _is_number(v), v, replacement)


def _count(axes: ReducedAxes) -> Tensor:
    """The number of cells that are not NaN."""
    counted = replace(axes, captures={})
    return counted.reduce(ADD, "count", lambda v: term("where", _is_number(v), 1, 0), int32)


# --- reductions without NaN ------------------------------------------------------------------------------------------


@composite
def nansum(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The sum of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g` to each cell that is not NaN.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "nansum").reduce(ADD, "nansum", _number_or(0))


@composite
def nanprod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The product of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g` times the product of all remaining cells, to each cell that is not NaN.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "nanprod").reduce(MUL, "nanprod", _number_or(1))


@composite
def nanmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The largest cell that is not NaN, over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to the cells that attain it, in equal shares.
    NaN:    if all cells are NaN, or there are none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes = axes_to_reduce(x, spec, names, "nanmax")
    if not axes.x.typing.is_float:
        return axes.reduce(MAX, "nanmax")
    return _nan_if_empty(axes, axes.reduce(MAX, "nanmax", _number_or(-math.inf)))


@composite
def nanmin(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The smallest cell that is not NaN, over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to the cells that attain it, in equal shares.
    NaN:    if all cells are NaN, or there are none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes = axes_to_reduce(x, spec, names, "nanmin")
    if not axes.x.typing.is_float:
        return axes.reduce(MIN, "nanmin")
    return _nan_if_empty(axes, axes.reduce(MIN, "nanmin", _number_or(math.inf)))


def _nan_if_empty(axes: ReducedAxes, extreme: Tensor) -> Tensor:
    result: Tensor = PRIMITIVES["where"](_count(axes), extreme, math.nan)
    return result


@composite
def nanmean(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The mean of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g / n` to each of the `n` cells that are not NaN.
    NaN:    if all cells are NaN, or there are none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return _nanmean(axes_to_reduce(x, spec, names, "nanmean"))


@composite
def nanvar(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The variance of the cells that are not NaN, over the axes that a one-operand spec removes, or over all axes.

    The mean of the squares of `x - nanmean(x)`; with `sample`, the unbiased estimate, whose divisor is `n - 1`.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g * 2 * (x - nanmean(x)) / n`, with `sample` `n - 1`, to each of the `n` cells that are not NaN.
    NaN:    if all cells are NaN, or there are none; with `sample` also for one cell.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return _nanvar(axes_to_reduce(x, spec, names, "nanvar"), sample)


@composite
def nanstd(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The standard deviation of the cells that are not NaN: the square root of `nanvar`.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g * (x - nanmean(x)) / (n * v)`, with `sample` `n - 1`; 0 where all cells are equal.
    NaN:    if all cells are NaN, or there are none; with `sample` also for one cell.
    Raises: EinsumSyntaxError; ShapeError.
    """
    root: Tensor = root_(_nanvar(axes_to_reduce(x, spec, names, "nanstd"), sample))
    return root


def _nanmean(axes: ReducedAxes) -> Tensor:
    total = axes.reduce(ADD, "sum", _number_or(0), min_precision=float32)
    return _per_count(axes, total, 0)


def _nanvar(axes: ReducedAxes, sample: bool) -> Tensor:
    center = without_gradient(_nanmean(axes))  # its gradient is the sum of the deviations, which is 0
    deviation = axes.combine_with_reduced(axes.x, center, lambda v, c: v - c, "deviation")
    deviations = ReducedAxes(deviation, axes.logic, axes.sizes, {})
    squares = deviations.reduce(ADD, "sum", lambda v: term("where", _is_number(v), v * v, 0.0))
    return _per_count(axes, squares, int(sample))


def _per_count(axes: ReducedAxes, total: Tensor, lost_degrees: int) -> Tensor:
    """A sum divided by the number of cells that are not NaN, minus the lost degrees of freedom."""

    def quotient(v: Term, n: Term) -> Term:
        return v / term("max", n - lost_degrees, 0)

    kind = axes.x.typing.as_operand if axes.x.typing.is_float else total.typing.as_operand
    divide = contraction("mean", pointwise(2), quotient, None, text="{0} / {1}", result_type=ResultType(kind))
    return apply(divide, [total, _count(axes)])


# --- other statistics ------------------------------------------------------------------------------------------------


@composite
def ptp(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The range of values, `max(x) - min(x)`, over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g` to the largest cells and `-g` to the smallest ones, in equal shares.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes = axes_to_reduce(x, spec, names, "ptp")
    return axes.reduce(MAX, "max") - replace(axes, captures={}).reduce(MIN, "min")


@composite
def moments(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> tuple[Tensor, Tensor]:
    """The mean and the variance over the axes that a one-operand spec removes, or over all axes: `mean` and `var`.

    Shapes: those of the spec, or `...|...->... => `, for both.
    Grad:   those of `mean` and `var`.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return mean(x, spec, **names), var(x, spec, sample=sample, **names)


@composite
def average(x: object, weights: object, spec: str = "...|...->...; ...|...->... => ", **names: Any) -> Tensor:
    """The weighted mean `sum(x * weights) / sum(weights)`, over the axes that a spec of both operands removes, or over
    all axes of operands of equal shape.

        oc.average(x, weights, "...|t,c; t => ...|c")

    Shapes: those of the spec, or `...|...->...; ...|...->... => `.
    Grad:   to `x` `g * weights / sum(weights)`; to the weights `g * (x - v) / sum(weights)`.
    NaN:    where the sum of the weights is 0.
    Raises: EinsumSyntaxError; ShapeError.
    """
    values, shares = embed(x), embed(weights)
    total = einsum(spec, values, shares, **names)
    return total / einsum(spec, values, shares, combine="snd", **names)


@composite
def cov(x: object, *, sample: bool = True) -> Tensor:
    """The covariance matrix of variables, the rows of a matrix, from observations, its columns; the divisor is the
    number of observations minus 1, or without `sample` the number of observations.

    Shapes: `..b..|i,t => ..b..|i,i`.
    Grad:   `(g + g.T) @ (x - mean(x))` divided by the divisor.
    NaN:    for no observations, and for a sample of one observation.
    Raises: ShapeError.
    """
    return _covariance(embed(x), sample)


def _covariance(x: Tensor, sample: bool) -> Tensor:
    axes = axes_to_reduce(x, "...|i,t => ...|i", {}, "cov")
    center = without_gradient(mean(x, "...|i,t => ...|i"))  # its gradient is the sum of the deviations, which is 0
    deviation = axes.combine_with_reduced(x, center, lambda v, c: v - c, "deviation")
    total = einsum("...|i,t; ...|k,t => ...|i,k", deviation, deviation)

    def quotient(v: Term) -> Term:
        return v / max(cells_per_result(total) - int(sample), 0)

    return apply(contraction("cov", pointwise(1), quotient, None, text="{0} / count"), [total])


@composite
def corrcoef(x: object) -> Tensor:
    """The correlation coefficients of variables, the rows of a matrix, from observations, its columns: the covariances
    divided by both standard deviations, and limited to the range from -1 to 1.

    Shapes: `..b..|i,t => ..b..|i,i`.
    Grad:   the derivative of the formula; 0 from a coefficient that is limited.
    NaN:    for a variable without variance.
    Raises: ShapeError.
    """
    covariance = _covariance(embed(x), sample=False)
    deviation = root_(einsum("...|i,i => ...|i", covariance))
    scale = einsum("...|i; ...|k => ...|i,k", deviation, deviation)
    return clip(covariance / scale, -1.0, 1.0)


REGISTRY.update(
    average=average, corrcoef=corrcoef, cov=cov, moments=moments, nanmax=nanmax, nanmean=nanmean, nanmin=nanmin,
    nanprod=nanprod, nanstd=nanstd, nansum=nansum, nanvar=nanvar, ptp=ptp,
)  # fmt: skip

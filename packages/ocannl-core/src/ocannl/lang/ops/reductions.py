"""Reductions over the axes that a one-operand spec removes, or over all axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ocannl.infer.logic import pointwise
from ocannl.ir.ops import ADD, AND, MAX, MIN, MUL, OR
from ocannl.ir.precision import float32, int32
from ocannl.lang.core import symbolic_terms
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import without_gradient
from ocannl.lang.ops.elementwise import root_
from ocannl.lang.ops.reduced_axes import ReducedAxes, axes_to_reduce, cells_per_result


def sum_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The sum over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g`, broadcast to each cell.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "sum").reduce(ADD, "sum")


def max_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The maximum over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to the cells that attain it, in equal shares.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "max").reduce(MAX, "max")


def min_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The minimum over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   to the cells that attain it, in equal shares.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "min").reduce(MIN, "min")


def prod(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The product over the axes that a one-operand spec removes, or over all axes; an empty product is 1.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g` times the product of all remaining cells, exact also where cells are zero.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "prod").reduce(MUL, "prod")


def any_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """1 where any cell is nonzero, else 0, over the axes that a one-operand spec removes, or over all axes. NaN is
    nonzero.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "any").reduce(OR, "any")


def all_(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """1 where all cells are nonzero, else 0, over the axes that a one-operand spec removes, or over all axes. NaN is
    nonzero.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "all").reduce(AND, "all")


def count_nonzero(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The int32 number of nonzero cells over the axes that a one-operand spec removes, or over all axes.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   none.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return axes_to_reduce(x, spec, names, "count_nonzero").reduce(ADD, "count_nonzero", _is_nonzero, int32)


def _is_nonzero(v: Term) -> Term:
    return symbolic_terms.apply("where", symbolic_terms.apply("ne", v, 0), 1, 0)


@composite
def mean(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The mean over the axes that a one-operand spec removes, or over all axes; of integers, as float32.

    Cells of a loss that do not count, and what elementwise operations make of them, are left out; the mean of no such
    cells is 0. The mean of a loss of weighted classes is weighted.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g / n` to each of the `n` cells.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes = axes_to_reduce(x, spec, names, "mean")
    return _mean_of_counted(axes) if axes.x.counted else _mean(axes)


@composite
def var(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The variance over the axes that a one-operand spec removes, or over all axes; of integers, as float32.

    The mean of the squares of `x - mean(x)`; with `sample`, the unbiased estimate, whose divisor is `n - 1`.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g * 2 * (x - mean(x)) / n`, with `sample` `n - 1`.
    NaN:    for no cells, and for a sample of one cell.
    Raises: EinsumSyntaxError; ShapeError.
    """
    return _var(axes_to_reduce(x, spec, names, "var"), sample)


@composite
def std(x: object, spec: str | None = None, *, sample: bool = False, **names: Any) -> Tensor:
    """The standard deviation: the square root of `var`.

    Shapes: those of the spec, or `...|...->... => `.
    Grad:   `g * (x - mean(x)) / (n * v)`, with `sample` `n - 1`; 0 where all cells are equal.
    Raises: EinsumSyntaxError; ShapeError.
    """
    root: Tensor = root_(_var(axes_to_reduce(x, spec, names, "std"), sample))
    return root


def _mean(axes: ReducedAxes) -> Tensor:
    total = axes.reduce(ADD, "sum", min_precision=float32)
    return _divided("mean", total, axes, 0)


def _mean_of_counted(axes: ReducedAxes) -> Tensor:
    """The mean over the cells where no mask of the operand is 0, weighted by the masks."""
    masks = axes.x.counted
    kind = None if any(mask.typing.is_float for mask in masks) else float32
    unweighted = range(1, len(masks) + 1)

    def masked(cell: Callable[..., object], result_type: ResultType, differentiable: bool) -> ReducedAxes:
        def body(v: Term, *counted: Term) -> Term:
            is_counted = functools.reduce(lambda a, b: a & b, counted)
            return symbolic_terms.apply("where", is_counted, cell(v, *counted), 0.0)

        operation = contraction("counted", pointwise(1 + len(masks)), body, None, differentiable=differentiable,
                                result_type=result_type)  # fmt: skip
        return replace(axes, x=apply(operation, [axes.x, *masks]))

    values = ResultType(weak_operands=frozenset(unweighted))
    total = masked(lambda v, *_: v, values, True).reduce(ADD, "sum", min_precision=float32)
    weights = masked(lambda _, *ws: functools.reduce(lambda a, b: a * b, ws), ResultType(kind, float32), False)
    number = replace(weights, captures={}).reduce(ADD, "sum")

    def quotient(v: Term, n: Term) -> Term:
        return v / symbolic_terms.apply("where", symbolic_terms.apply("eq", n, 0.0), 1.0, n)

    result_type = ResultType(axes.x.typing.as_operand)
    return apply(contraction("mean", pointwise(2), quotient, None, text="{0} / {1}", result_type=result_type),
                 [total, number])  # fmt: skip


def _var(axes: ReducedAxes, sample: bool) -> Tensor:
    mean = without_gradient(_mean(axes))  # its gradient is the sum of the deviations, which is 0
    deviation = axes.combine_with_reduced(axes.x, mean, lambda v, mean: v - mean, "deviation")
    deviations = ReducedAxes(deviation, axes.logic, axes.sizes, {})
    return _divided("var", deviations.reduce(ADD, "sum", lambda v: v * v), deviations, int(sample))


def _divided(name: str, total: Tensor, axes: ReducedAxes, lost_degrees: int) -> Tensor:
    """A sum divided by the number of reduced cells minus the lost degrees of freedom."""
    kind = axes.x.typing.as_operand if axes.x.typing.is_float else total.typing.as_operand

    def quotient(v: Term) -> Term:
        return v / max(cells_per_result(total) - lost_degrees, 0)

    divide = contraction(name, pointwise(1), quotient, None, text="{0} / count", result_type=ResultType(kind))
    return apply(divide, [total])


REGISTRY.update(
    sum=sum_, largest=max_, smallest=min_, prod=prod, any=any_, all=all_, count_nonzero=count_nonzero, mean=mean,
    var=var, std=std,
)  # fmt: skip

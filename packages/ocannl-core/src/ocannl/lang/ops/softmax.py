"""Softmax and related functions, over the output row, or over the axes that a spec removes.

All operations subtract the maximal score first, so that no exponential overflows.
"""

from __future__ import annotations

from typing import Any

from ocannl.ir.ops import ADD, MAX
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import stop_gradient
from ocannl.lang.ops.elementwise import log_of_sum_
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.reduced_axes import OUTPUT_ROW, ReducedAxes, axes_to_reduce

exp, log, where = PRIMITIVES["exp"], PRIMITIVES["log"], PRIMITIVES["where"]


@composite
def softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`exp(x) / sum(exp(x))` over the output row, or over the axes that `spec` removes.

        weights = oc.softmax(scores, "...|q,k => ...|q")

    Shapes: those of `x`.
    Grad:   `v * (g - sum(g * v))`.
    NaN:    where the largest score is infinite, as in PyTorch.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes, shifted = _shifted(x, spec, names, "softmax")
    exponentials = exp(shifted)
    total = _sum_of_exponentials(axes, exponentials)
    return axes.combine_with_reduced(exponentials, total, lambda e, total: e / total, "softmax")


@composite
def log_softmax(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The logarithm of `softmax`, exact where probabilities underflow.

    Shapes: those of `x`.
    Grad:   `g - softmax(x) * sum(g)`.
    NaN:    where the largest score is infinite, as in PyTorch.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes, shifted = _shifted(x, spec, names, "log_softmax")
    log_total = log(_sum_of_exponentials(axes, exp(shifted)))
    return axes.combine_with_reduced(shifted, log_total, lambda s, log_total: s - log_total, "log_softmax")


@composite
def logsumexp(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """`log(sum(exp(x)))` over the output row, or over the axes that `spec` removes.

    Shapes: `..b..|..i..->..o.. => ..b..|..i..->`, or those of the spec.
    Grad:   `g * softmax(x)`; 0 where all scores are minus infinity, NaN at an infinite score.
    Raises: EinsumSyntaxError; ShapeError.
    """
    axes = axes_to_reduce(x, spec, names, "logsumexp", OUTPUT_ROW)
    largest = stop_gradient(axes.reduce(MAX, "max"))
    offset: Tensor = where((largest - largest < 1) | (largest > 0), largest, 0)  # 0 if all scores are minus infinity
    exponentials = axes.combine_with_reduced(axes.x, offset, _exp_of_difference, "exp")
    total: Tensor = log_of_sum_(_sum_of_exponentials(axes, exponentials))
    return total + offset


def _shifted(x: object, spec: str | None, names: dict[str, Any], title: str) -> tuple[ReducedAxes, Tensor]:
    axes = axes_to_reduce(x, spec, names, title, OUTPUT_ROW)
    largest = stop_gradient(axes.reduce(MAX, "max"))
    return axes, axes.combine_with_reduced(axes.x, largest, lambda v, largest: v - largest, "shifted")


def _exp_of_difference(v: Term, offset: Term) -> Term:
    is_infinite = (v > 0) & term("ne", v - v, 0)  # dominates all finite scores
    return term("where", is_infinite, 1, exp(v - offset))


def _sum_of_exponentials(axes: ReducedAxes, exponentials: Tensor) -> Tensor:
    return ReducedAxes(exponentials, axes.logic, axes.sizes, {}).reduce(ADD, "sum")


REGISTRY.update(softmax=softmax, log_softmax=log_softmax, logsumexp=logsumexp)

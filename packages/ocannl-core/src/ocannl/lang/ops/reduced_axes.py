"""Reduced axes, selected by an einsum spec of one operand: `...|q,k => ...|q`.

The reduced result can be combined with the operand again, by the two sides of that spec: `...|q,k; ...|q => ...|q,k`.
Axes are thus matched by name, never by position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.base.keyword_answers import KEYWORDS
from ocannl.infer.logic import EQUAL, Logic, einsum
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import einsum_text, refuse_concat

ALL_AXES = Logic("total", parse("...|...->... => "), (EQUAL,), needs_axes=False)
OUTPUT_ROW = Logic("reduction of the output row", parse("...|...->... => ...|...->"), (EQUAL,), needs_axes=False)

Formula = Callable[..., Term]


def identity(v: Term) -> Term:
    return v


AXES_BY_NUMBER = frozenset(["dim", "axis", "dims", "axes", "keepdim", "keepdims"])


@dataclass(frozen=True, slots=True)
class ReducedAxes:
    """A tensor, and the spec that selects the axes to reduce."""

    x: Tensor
    logic: Logic
    sizes: dict[str, int]
    captures: dict[str, Any]

    def reduce(
        self, op: Op, title: str, formula: Formula = identity, kind: Precision | None = None,
        min_precision: Precision | None = None,
    ) -> Tensor:  # fmt: skip
        """The tensor reduced by `op` over these axes, after applying `formula` to each cell."""
        text = f"{{0}}.{title}()" if self.logic.name != "einsum" else einsum_text(title, self.logic.spec.text, 1)
        result_type = ResultType(kind, min_precision)
        operation = contraction(title, self.logic, formula, op, text=text, sizes=self.sizes, result_type=result_type)
        return apply(operation, [self.x], captures=self.captures)

    def combine_with_reduced(self, full: Tensor, reduced: Tensor, formula: Formula, title: str) -> Tensor:
        """Applies `formula` to a tensor with the axes of the operand and, broadcasting, one with the remaining axes."""
        spec = self.logic.spec
        combined = Spec((*spec.operands, spec.result), spec.operands[0])
        logic = Logic(self.logic.name, combined, (EQUAL, EQUAL), needs_axes=self.logic.needs_axes)
        return apply(contraction(title, logic, formula, None, sizes=self.sizes), [full, reduced])


def _without_spec(name: str, title: str) -> str:
    """The problem of a keyword without a spec, which may be an axis by its number."""
    if name in KEYWORDS and name not in AXES_BY_NUMBER:
        return f"x.{title} has no argument `{name}=`: {KEYWORDS[name]}"
    if name not in AXES_BY_NUMBER:
        return f"names such as {name!r} belong to a spec: x.{title}(spec, ...)"
    return (
        f'a spec names axes instead of `{name}=`: write x.{title}("...|a,b => ...|a") for the axis b; '
        "`=> ...|a,0` keeps an axis of size 1"
    )


def axes_to_reduce(
    x: object, spec: str | None, names: dict[str, Any], title: str, default: Logic = ALL_AXES
) -> ReducedAxes:
    """Embeds an operand and parses its spec; without a spec, `default` selects the axes.

    Raises: CodeError for names without a spec, and for specs that do not fit; EinsumSyntaxError.
    """
    t = embed(x)
    if spec is None and names:
        raise CodeError(_without_spec(next(iter(names)), title))
    if spec is None:
        return ReducedAxes(t, default, {}, {})
    parsed = parse(spec)
    refuse_concat(parsed, spec)
    check_arity(parsed, spec, [t])
    return ReducedAxes(t, einsum(parsed), *split_names(parsed, spec, names))


def cells_per_result(reduction: Tensor) -> int:
    """The number of operand cells that are reduced to one result cell."""
    (box,) = reduction.projections.pieces
    kept = {s for index in box.result for s in index.syms}
    return prod(s.extent for s in box.loops if s not in kept)

"""Axes that go away, by a spec of one operand: `...|q,k => ...|q`.

What is left may meet the operand again, each by its own part of that spec: `...|q,k; ...|q => ...|q,k`. So axes meet by
name, and never by position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import EQUAL, Logic, einsum
from ocannl.infer.parse import parse
from ocannl.infer.spec import Spec
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term
from ocannl.lang.ops.einsum import einsum_text, refuse_concat

ALL = Logic("total", parse("...|...->... => "), (EQUAL,), asks=False)
OUTPUT_ROW = Logic("reduction of the output row", parse("...|...->... => ...|...->"), (EQUAL,), asks=False)

Formula = Callable[..., Term]


def itself(v: Term) -> Term:
    return v


@dataclass(frozen=True, slots=True)
class Away:
    """A tensor, and which of its axes go away."""

    x: Tensor
    logic: Logic
    sizes: dict[str, int]
    captures: dict[str, Any]

    def reduced(
        self, op: Op, title: str, formula: Formula = itself, kind: Precision | None = None,
        least: Precision | None = None,
    ) -> Tensor:  # fmt: skip
        """What is left when these axes are reduced."""
        text = f"{{0}}.{title}()" if self.logic.name != "einsum" else einsum_text(title, self.logic.spec.text, 1)
        operation = contraction(title, self.logic, formula, op, text=text, sizes=self.sizes, kind=kind, least=least)
        return apply(operation, [self.x], captures=self.captures)

    def met(self, whole: Tensor, left: Tensor, formula: Formula, title: str) -> Tensor:
        """Something with the axes of the operand, cell by cell with something that has those which are left."""
        spec = self.logic.spec
        both = Spec((*spec.operands, spec.result), spec.operands[0])
        logic = Logic(self.logic.name, both, (EQUAL, EQUAL), asks=self.logic.asks)
        return apply(contraction(title, logic, formula, None, sizes=self.sizes), [whole, left])


def away(x: object, spec: str | None, names: dict[str, Any], title: str, default: Logic = ALL) -> Away:
    """The operand with its spec, which is read and checked; `default` says what goes away when there is none."""
    t = embed(x)
    if spec is None and names:
        raise CodeError(f"names such as {next(iter(names))!r} belong to a spec: x.{title}(spec, ...)")
    if spec is None:
        return Away(t, default, {}, {})
    read = parse(spec)
    refuse_concat(read, spec)
    check_arity(read, spec, [t])
    return Away(t, einsum(read), *split_names(read, spec, names))


def count(reduction: Tensor) -> int:
    """How many cells meet in each cell of a reduction."""
    (box,) = reduction.projections.pieces
    kept = {s for index in box.result for s in index.syms}
    return prod(s.extent for s in box.loops if s not in kept)

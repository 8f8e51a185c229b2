"""The public function of each row of the table of primitives; its text says what the table of derivatives holds."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.ir.assign import Apply, Number
from ocannl.ir.ops import OPS, Domain, Op
from ocannl.lang.core import terms
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Place, Term, Tree

WORDS = {"not": "not_", "and": "and_", "or": "or_"}
"""Primitives whose names are words of Python."""

LABEL = inspect.Parameter("label", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
"""What every operation takes."""

_WEAK = {"where": frozenset({0}), "relu_gate": frozenset({0}), "sat01_gate": frozenset({0})}


def _primitive(op: Op) -> Callable[..., Any]:
    """The public function of one row of the table of primitives."""
    name = WORDS.get(op.name, op.name)
    operation = contraction(
        name,
        pointwise(op.arity),
        lambda *xs: terms.apply(op.name, *xs),
        None,
        differentiable=terms.is_differentiable(op),
        domain=op.domain,
        weak_operands=_WEAK.get(op.name, frozenset()),
        text=_text(op),
    )

    def function(*inputs: object, label: str | None = None) -> Any:
        if len(inputs) != op.arity:
            raise CodeError(f"oc.{name} takes {op.arity} operand{'s' * (op.arity > 1)}, not {len(inputs)}")
        if any(isinstance(i, Term) for i in inputs):
            return terms.apply(op.name, *inputs)
        return apply(operation, [embed(i) for i in inputs], label=label)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = _signature(op)  # type: ignore[attr-defined]
    function.__doc__ = _doc(op)
    return function


def _text(op: Op) -> str:
    if not op.symbol:
        return ""
    symbol = {"!": "~", "&&": "&", "||": "|"}.get(op.symbol, op.symbol)
    return f"{symbol}{{0}}" if op.arity == 1 else f"{{0}} {symbol} {{1}}" if op.name not in ("eq", "ne") else ""


def _names(op: Op) -> tuple[str, ...]:
    """What the operands are called."""
    if op.arity > 3:
        return tuple(f"x{n}" for n in range(1, op.arity + 1))
    return ("condition", "x", "y") if op.name == "where" else ("x", "y", "z")[: op.arity]


def _signature(op: Op) -> inspect.Signature:
    operands = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY, annotation=object) for n in _names(op)]
    return inspect.Signature([*operands, LABEL], return_annotation=Tensor)


# --- texts -----------------------------------------------------------------------------------------------------------


def _doc(op: Op) -> str:
    """What it gives, cell by cell; its derivatives, as the table has them; what it refuses."""
    raises = ["ShapeError"] * (op.arity > 1) + ["DtypeError for floats"] * (op.domain in (Domain.INTEGER, Domain.WORD))
    lines = [
        op.doc,
        "",
        cells(op.arity),
        f"Grad:   {'; '.join(_derivatives(op)) or 'none'}.",
    ]
    return "\n".join([*lines, f"Raises: {'; '.join(raises)}."] if raises else lines)


def cells(arity: int) -> str:
    """The shape rule of what goes cell by cell."""
    each = "...|...->..."
    return f"Shapes: `{'; '.join([each] * arity)} => {each}`{', every row broadcasting' * (arity > 1)}."


def _derivatives(op: Op) -> Iterator[str]:
    """What each operand receives, in terms of `g`, the value `v` and the operands."""
    names = ("g", "v", *_names(op))
    given = [Term(Place(n, 0)) for n in range(len(names))]  # any leaves would do
    for name, rule in zip(_names(op), terms.DERIVATIVES.get(op.name, ()), strict=False):
        formula = "nothing" if rule is None else f"`{_written(rule(*given).tree, names)}`"
        yield formula if op.arity == 1 else f"to `{name}` {formula}"


def _written(tree: Tree, names: tuple[str, ...]) -> str:
    """A formula, as Python writes it."""

    def whole(part: object) -> str:
        match part:
            case Place(slot):
                return names[slot]
            case Number(value):
                return f"{value:g}"
            case Apply(op, args):
                operands = [whole(a) for a in args]
                call = f"{WORDS.get(op.name, op.name)}({', '.join(operands)})"
                return f"({_text(op).format(*operands)})" if _text(op) else call
        raise AssertionError(part)

    return ast.unparse(ast.parse(whole(tree), mode="eval"))  # with no more parentheses than it needs


PRIMITIVES: dict[str, Callable[..., Any]] = {WORDS.get(op.name, op.name): _primitive(op) for op in OPS}
REGISTRY.update(PRIMITIVES)

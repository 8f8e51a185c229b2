"""Public functions of the primitive operations, documented from the table of derivatives."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.ir.assign import Call, Number
from ocannl.ir.ops import OPS, Domain, Op
from ocannl.lang.core import symbolic_terms
from ocannl.lang.core.derivatives import DERIVATIVE_TEXTS, DERIVATIVES, is_differentiable
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import AxisIndex, Term, Tree
from ocannl.lang.core.tensor import Tensor, apply

PYTHON_NAMES = {"not": "not_", "and": "and_", "or": "or_"}
"""Names of primitives whose names are Python keywords."""

PUBLIC_NAMES = {"min": "minimum", "max": "maximum"}
"""Public names of primitives whose names are those of reductions."""

LABEL = inspect.Parameter("label", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
"""The keyword parameter of all operations."""

_WEAK = {"where": frozenset({0}), "relu_gate": frozenset({0}), "sat01_gate": frozenset({0})}


def _primitive(op: Op) -> Callable[..., Any]:
    """The public function of one primitive."""
    name = PYTHON_NAMES.get(op.name, op.name)
    operation = contraction(
        name,
        pointwise(op.arity),
        lambda *xs: symbolic_terms.apply(op.name, *xs),
        None,
        differentiable=is_differentiable(op),
        result_type=ResultType(domain=op.domain, weak_operands=_WEAK.get(op.name, frozenset())),
        text=_call_format(op),
    )

    def function(*inputs: object, label: str | None = None) -> Any:
        if len(inputs) != op.arity:
            takes = f"takes {op.arity} operand{'s' * (op.arity > 1)}, {', '.join(_operand_names(op))}"
            raise CodeError(f"oc.{PUBLIC_NAMES.get(name, name)} {takes}, not {len(inputs)}")
        if any(isinstance(i, Term) for i in inputs):
            return symbolic_terms.apply(op.name, *inputs)
        return apply(operation, [embed(i) for i in inputs], label=label)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = _signature(op)  # type: ignore[attr-defined]
    function.__doc__ = _doc(op)
    return function


def _call_format(op: Op) -> str:
    if not op.symbol:
        return ""
    symbol = {"!": "~", "&&": "&", "||": "|"}.get(op.symbol, op.symbol)
    return f"{symbol}{{0}}" if op.arity == 1 else f"{{0}} {symbol} {{1}}" if op.name not in ("eq", "ne") else ""


def _operand_names(op: Op) -> tuple[str, ...]:
    """The names of the operands."""
    if op.arity > 3:
        return tuple(f"x{n}" for n in range(1, op.arity + 1))
    return ("condition", "x", "y") if op.name == "where" else ("x", "y", "z")[: op.arity]


def _signature(op: Op) -> inspect.Signature:
    operands = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY, annotation=object) for n in _operand_names(op)]
    return inspect.Signature([*operands, LABEL], return_annotation=Tensor)


# --- documentation ---------------------------------------------------------------------------------------------------


def _doc(op: Op) -> str:
    """The docstring of a primitive: description, shapes, derivatives and errors."""
    raises = ["ShapeError"] * (op.arity > 1) + ["DtypeError for floats"] * (op.domain in (Domain.INTEGER, Domain.WORD))
    lines = [
        op.doc,
        "",
        elementwise_shapes(op.arity),
        f"Grad:   {'; '.join(_derivatives(op)) or 'none'}.",
    ]
    return "\n".join([*lines, f"Raises: {'; '.join(raises)}."] if raises else lines)


def elementwise_shapes(arity: int) -> str:
    """The documented shape rule of an elementwise operation."""
    shape = "...|...->..."
    return f"Shapes: `{'; '.join([shape] * arity)} => {shape}`{', every row broadcasting' * (arity > 1)}."


def _derivatives(op: Op) -> Iterator[str]:
    """The gradient of each operand, in terms of `g`, the value `v` and the operands."""
    names = ("g", "v", *_operand_names(op))
    leaves = [Term(AxisIndex(n, 0)) for n in range(len(names))]  # leaf n stands for variable `names[n]`
    texts = DERIVATIVE_TEXTS.get(op.name)
    for n, (name, rule) in enumerate(zip(_operand_names(op), DERIVATIVES.get(op.name, ()), strict=False)):
        text = texts[n] if texts else rule and _formula_text(rule(*leaves).tree, names)
        formula = "nothing" if text is None else f"`{text}`"
        yield formula if op.arity == 1 else f"to `{name}` {formula}"


def _formula_text(tree: Tree, names: tuple[str, ...]) -> str:
    """The Python source of a formula."""

    def text(part: object) -> str:
        match part:
            case AxisIndex(slot):
                return names[slot]
            case Number(value):
                return f"{value:g}"
            case Call(op, args):
                operands = [text(a) for a in args]
                call = f"{PYTHON_NAMES.get(op.name, op.name)}({', '.join(operands)})"
                return f"({_call_format(op).format(*operands)})" if _call_format(op) else call
        raise AssertionError(part)

    return ast.unparse(ast.parse(text(tree), mode="eval"))  # drops redundant parentheses


PRIMITIVES: dict[str, Callable[..., Any]] = {PYTHON_NAMES.get(op.name, op.name): _primitive(op) for op in OPS}
REGISTRY.update(PRIMITIVES)

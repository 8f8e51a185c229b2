"""Concatenation, stacks and block matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocannl.base.errors import CodeError, DataError
from ocannl.infer.logic import EQUAL, Logic
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.infer.shape import relate
from ocannl.infer.spec import Kind
from ocannl.infer.tensor_description import Provenance
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite, enclosing_call, site
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import axis_kind, is_literal
from ocannl.lang.core.operation import Operation, Slots, contraction
from ocannl.lang.core.operators import REGISTRY, Operators
from ocannl.lang.core.slots import ConcatParts
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import einsum_text


def concat(spec: str, *xs: object, label: str | None = None, **names: Any) -> Tensor:
    """Concatenates axes, splits or pads them: `"a; b => a^b"`, `"a^b => b"`, `"a => 3^a"` (zeros before `a`).

    Keyword names are identifiers of the spec, as in `einsum`.

    Shapes: those of the spec.
    Grad:   to each operand its part of `g`.
    Raises: CodeError for operands or names that are not in the spec; EinsumSyntaxError; ShapeError.
    """
    parsed = parse(spec)
    operands = [embed(x) for x in xs]
    check_arity(parsed, spec, operands)
    sizes, captures = split_names(parsed, spec, names)
    text = einsum_text("concat", spec, len(operands))
    return apply(concatenation("concat", einsum_logic(parsed), text, sizes), operands, captures=captures, label=label)


def concatenation(name: str, logic: Logic, text: str = "", sizes: Mapping[str, int] | None = None) -> Operation:
    """The operation that copies each operand to its part of the result."""

    def forward(s: Slots) -> None:
        s.result().write(ADD, True, ConcatParts(s.operands))

    def gradient(s: Slots) -> None:
        for number in range(1, len(s.operands) + 1):
            s.operand_gradient(number).write(ADD, False, s.gradient())

    return Operation(name, logic, forward, gradient, text=text, sizes=sizes or {})


def _stack_logic(spec: str) -> Logic:
    parsed = parse(spec)
    return Logic("stack", parsed, (EQUAL,) * len(parsed.operands))


_NEW_AXIS_SPECS = {"batch": "{0}...|...->...", "input": "...|{0}...->...", "output": "...|...->{0}..."}
"""Specs of a row with a new leading axis."""


@composite
def stack(tensors: Any, axis: Kind = "output") -> Tensor:
    """Stacks tensors of the same shape along a new leading axis.

    Shapes: `...|...->...; ...|...->... => ...|...->2,...` for two tensors along an output axis, and so on.
    Grad:   to each tensor its part of `g`.
    Raises: CodeError for an unknown kind of axis; DataError unless `tensors` is a nonempty list; ShapeError.
    """
    if not isinstance(axis, str) or axis not in _NEW_AXIS_SPECS:
        listed = f": a list of tensors, as in oc.stack([{tensors!r}, ...])" if isinstance(tensors, Operators) else ""
        raise CodeError(f"`axis=` must be 'batch', 'input' or 'output', not {axis!r}{listed}"[:200])
    if not isinstance(tensors, list | tuple) or not tensors:
        raise DataError(f"oc.stack takes a list of at least one tensor, not {tensors!r}"[:200])
    parts = [embed(t) for t in tensors]
    spec = _NEW_AXIS_SPECS[axis].format("")
    same_shapes = _stack_logic(f"{'; '.join([spec] * len(parts))} => ")
    provenance = Provenance("stack", "result", enclosing_call.get(), site().where)
    relate(same_shapes, [t.handle for t in parts], None, provenance)
    expanded = _stack_logic(f"{spec} => {_NEW_AXIS_SPECS[axis].format('0,')}")
    unsqueeze = contraction("stack", expanded, lambda v: v, None)
    rows = [apply(unsqueeze, [t], label=f"row{n}") for n, t in enumerate(parts)]
    if len(rows) == 1:
        return rows[0]
    names = [f"p{n}" for n in range(len(rows))]
    operands = "; ".join(_NEW_AXIS_SPECS[axis].format(f"{name},") for name in names)
    logic = _stack_logic(f"{operands} => {_NEW_AXIS_SPECS[axis].format('^'.join(names) + ',')}")
    return apply(concatenation("stack", logic), rows)


@composite
def block(nested: Any) -> Tensor:
    """Stacks tensors of the same shape in nested lists (output axes), tuples (input axes) and `oc.batch` (batch axes).

    Shapes: `...|...->...; ...|...->... => ...|...->1,2,...` for one list of two tensors in a list, and so on.
    Grad:   to each tensor its part of `g`.
    Raises: DataError for an empty list, and for sibling lists of different lengths; ShapeError.
    """
    if isinstance(nested, Operators) or not is_literal(nested):
        return embed(nested)
    if not nested:
        raise DataError("an empty block has no shape")
    lengths = dict.fromkeys(len(item) for item in nested if is_literal(item))
    if len(lengths) > 1:
        raise DataError(f"sibling lists of a block have different lengths: {', '.join(map(str, lengths))}")
    return stack([block(item) for item in nested], axis=axis_kind(nested))


REGISTRY.update(concat=concat, stack=stack, block=block)

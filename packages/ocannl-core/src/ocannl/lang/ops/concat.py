"""Tensors laid one after another: concatenation, stacks and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocannl.base.errors import CodeError, DataError
from ocannl.infer.logic import EQUAL, Logic
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.infer.shape import relate
from ocannl.infer.spec import Kind
from ocannl.infer.terms import Provenance
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composed, composite, site
from ocannl.lang.core.einsum_arguments import check_arity, split_names
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.literals import is_literal, kind_of
from ocannl.lang.core.operation import Operation, Slots, contraction
from ocannl.lang.core.operators import REGISTRY, Operators
from ocannl.lang.core.slots import Present
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.einsum import einsum_text


def concat(spec: str, *xs: object, label: str | None = None, **names: Any) -> Tensor:
    """Lays axes one after another, or takes them apart: `"a; b => a^b"`, `"a^b => b"`, `"a => 3^a"` (zeros before `a`).

    Keyword names are identifiers of the spec, as in `einsum`.

    Shapes: those of the spec.
    Grad:   each operand receives the part of the gradient that came from it.
    Raises: CodeError for operands or names that the spec does not have; EinsumSyntaxError; ShapeError.
    """
    read = parse(spec)
    operands = [embed(x) for x in xs]
    check_arity(read, spec, operands)
    sizes, captures = split_names(read, spec, names)
    text = einsum_text("concat", spec, len(operands))
    return apply(_laying("concat", einsum_logic(read), text, sizes), operands, captures=captures, label=label)


def _laying(name: str, logic: Logic, text: str = "", sizes: Mapping[str, int] | None = None) -> Operation:
    """Cells stay as they are; each operand has its own part of the result."""

    def forward(s: Slots) -> None:
        s.result().write(ADD, True, Present(s.operands))

    def gradient(s: Slots) -> None:
        for number in range(1, len(s.operands) + 1):
            s.operand_gradient(number).write(ADD, False, s.gradient())

    return Operation(name, logic, forward, gradient, text=text, sizes=sizes or {})


def _stacking(spec: str) -> Logic:
    read = parse(spec)
    return Logic("stack", read, (EQUAL,) * len(read.operands))


_PLACED = {"batch": "{0}...|...->...", "input": "...|{0}...->...", "output": "...|...->{0}..."}
"""Where an axis is put in front of those that are there."""


@composite
def stack(tensors: Any, axis: Kind = "output") -> Tensor:
    """Tensors of one shape along a new leading axis of a kind.

    Shapes: `...|...->...; ...|...->... => ...|...->2,...` for two tensors along an output axis, and so on.
    Grad:   to each tensor what arrives at its place.
    Raises: CodeError for a kind of axis that there is not; DataError for what is no list of tensors; ShapeError.
    """
    if axis not in _PLACED:
        raise CodeError(f"`axis` is the kind of the new axis, 'batch', 'input' or 'output'; not {axis!r}")
    if not isinstance(tensors, list | tuple) or not tensors:
        raise DataError(f"oc.stack takes a list of at least one tensor, not {tensors!r}"[:200])
    parts = [embed(t) for t in tensors]
    whole = _PLACED[axis].format("")
    alike = _stacking(f"{'; '.join([whole] * len(parts))} => ")
    relate(alike, [t.handle for t in parts], None, Provenance("stack", "result", composed.get(), site().where))
    longer = _stacking(f"{whole} => {_PLACED[axis].format('0,')}")
    unsqueeze = contraction("stack", longer, lambda v: v, None)
    rows = [apply(unsqueeze, [t], label=f"row{n}") for n, t in enumerate(parts)]
    if len(rows) == 1:
        return rows[0]
    names = [f"p{n}" for n in range(len(rows))]
    before = "; ".join(_PLACED[axis].format(f"{name},") for name in names)
    laid = _stacking(f"{before} => {_PLACED[axis].format('^'.join(names) + ',')}")
    return apply(_laying("stack", laid), rows)


@composite
def block(nested: Any) -> Tensor:
    """Tensors of one shape in nested lists (output axes), tuples (input axes) and `oc.batch` (batch axes).

    Shapes: `...|...->...; ...|...->... => ...|...->1,2,...` for one list of two tensors in a list, and so on.
    Grad:   to each tensor what arrives at its place.
    Raises: DataError for nothing, and for lists of several lengths side by side; ShapeError.
    """
    if isinstance(nested, Operators) or not is_literal(nested):
        return embed(nested)
    if not nested:
        raise DataError("a block of nothing has no shape")
    lengths = dict.fromkeys(len(item) for item in nested if is_literal(item))
    if len(lengths) > 1:
        raise DataError(f"a block holds lists of {' and of '.join(map(str, lengths))} side by side; make them as long")
    return stack([block(item) for item in nested], axis=kind_of(nested))


REGISTRY.update(concat=concat, stack=stack, block=block)

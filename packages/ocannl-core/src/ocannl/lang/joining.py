"""Tensors laid one after another: concatenation, stacks and blocks."""

from __future__ import annotations

from typing import Any

from ocannl.base.errors import CodeError, DataError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.infer.spec import Kind
from ocannl.ir.ops import ADD
from ocannl.lang.ambient import composite
from ocannl.lang.given import check_arity, split_names
from ocannl.lang.leaves import embed
from ocannl.lang.literals import is_literal, kind_of
from ocannl.lang.operation import Operation, Slots
from ocannl.lang.operations import einsum, einsum_text
from ocannl.lang.operators import Operators
from ocannl.lang.slots import Present
from ocannl.lang.tensor import Tensor, apply


def concat(spec: str, *xs: object, label: str | None = None, **names: Any) -> Tensor:
    """Lays axes one after another, or takes them apart: `"a; b => a^b"`, `"a^b => b"`, `"a => 3^a"` (zeros before `a`).

    Keyword names are identifiers of the spec, as in `einsum`.
    Grad: each operand receives the part of the gradient that came from it.
    """
    read = parse(spec)
    operands = [embed(x) for x in xs]
    check_arity(read, spec, operands)
    sizes, captures = split_names(read, spec, names)

    def forward(s: Slots) -> None:
        s.result().write(ADD, True, Present(s.operands))

    def gradient(s: Slots) -> None:
        for number in range(1, len(s.operands) + 1):
            s.operand_gradient(number).write(ADD, False, s.gradient())

    text = einsum_text("concat", spec, len(operands))
    operation = Operation("concat", einsum_logic(read), forward, gradient, reduce=ADD, text=text, sizes=sizes)
    return apply(operation, operands, captures=captures, label=label)


_UNSQUEEZED = {
    "batch": "...|...->... => 0,...|...->...",
    "input": "...|...->... => ...|0,...->...",
    "output": "...|...->... => ...|...->0,...",
}
_PLACED = {"batch": "{0},...|...->...", "input": "...|{0},...->...", "output": "...|...->{0},..."}


@composite
def stack(tensors: Any, axis: Kind = "output") -> Tensor:
    """Tensors of one shape along a new leading axis of a kind.

    Shapes: n times `...|...->...` => `...|...->n,...` for an output axis, and so on.
    """
    if axis not in _PLACED:
        raise CodeError(f"`axis` is the kind of the new axis, 'batch', 'input' or 'output'; not {axis!r}")
    if not isinstance(tensors, list | tuple) or not tensors:
        raise DataError(f"oc.stack takes a list of at least one tensor, not {tensors!r}"[:200])
    rows = [einsum(_UNSQUEEZED[axis], t, label=f"row{n}") for n, t in enumerate(tensors)]
    if len(rows) == 1:
        return rows[0]
    parts = [f"p{n}" for n in range(len(rows))]
    before = "; ".join(_PLACED[axis].format(part) for part in parts)
    return concat(f"{before} => {_PLACED[axis].format('^'.join(parts))}", *rows)


@composite
def block(nested: Any) -> Tensor:
    """Tensors of one shape in nested lists (output axes), tuples (input axes) and `oc.batch` (batch axes)."""
    if isinstance(nested, Operators) or not is_literal(nested):
        return embed(nested)
    if not nested:
        raise DataError("a block of nothing has no shape")
    return stack([block(item) for item in nested], axis=kind_of(nested))

"""Functions of ocannl that are operators of ONNX, by the name of the call that computes a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ocannl.ir.precision import float32
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.rewriting.nodes import is_hidden, readers_of
from ocannl_onnx.exporting.loads import Stored
from ocannl_onnx.exporting.statements import Statements

Row = Callable[[Statements, Tensor, Stored, Mapping[str, Any]], Stored | None]


class CompositeOperators:
    """Replaces the values of calls by operators, where there is a row for the function."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        readers = readers_of(tensors)
        self._results = {t for t in tensors if t.application is not None and not is_hidden(t, readers[t])}

    def apply(self, t: Tensor, statements: Statements) -> None:
        """Sets the value of a tensor that is the result of a call with a row."""
        call = t.operation if t in self._results else None
        row = ROWS.get(call.name) if call is not None else None
        if row is None or call is None or len(call.operands) != 1 or call.operands[0].node not in statements.values:
            return
        (x,) = call.operands
        stored = row(statements, x, statements.values[x.node], call.settings)
        if stored is not None:
            statements.values[t.node] = stored


def _gelu(statements: Statements, x: Tensor, stored: Stored, settings: Mapping[str, Any]) -> Stored | None:
    if x.dtype is not float32:
        return None
    name = statements.builder.node("Gelu", stored.name, approximate=settings.get("approximate", "tanh"))
    return Stored(name, stored.order)


ROWS: dict[str, Row] = {"gelu": _gelu}

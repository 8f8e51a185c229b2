"""Functions of ocannl that are operators of ONNX, by the name of the call that computes a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ocannl.ir.precision import float32, float64, int32, int64
from ocannl.lang.core.indirect_axes import labelled_axes
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.rewriting.nodes import is_hidden, readers_of
from ocannl_onnx.exporting.loads import Stored
from ocannl_onnx.exporting.statements import Statements

Row = Callable[[Statements, Tensor, Tensor, Stored, Mapping[str, Any]], Stored | None]
"""The value of a result, given its only operand, the value of this operand, and the settings of the call."""


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
        stored = row(statements, t, x, statements.values[x.node], call.settings)
        if stored is not None:
            statements.values[t.node] = stored


def _gelu(statements: Statements, t: Tensor, x: Tensor, stored: Stored, settings: Mapping[str, Any]) -> Stored | None:
    if x.dtype is not float32:
        return None
    name = statements.builder.node("Gelu", stored.name, approximate=settings.get("approximate", "tanh"))
    return Stored(name, stored.order)


def _cumsum(statements: Statements, t: Tensor, x: Tensor, stored: Stored, settings: Mapping[str, Any]) -> Stored | None:
    application = t.application
    is_scan = application is not None and application.operation.name == "cumsum" and application.operands[0] is x
    if application is None or not is_scan or x.dtype not in CUMSUM_TYPES or x.dtype is not t.dtype:
        return None
    operand, scanned = application.operation.logic.spec.operands
    ((label, _),) = labelled_axes(scanned, application.operands[1].shape)
    axis = stored.order.index(dict(labelled_axes(operand, x.shape))[label])
    name = statements.builder.node("CumSum", stored.name, statements.builder.constant(np.array(axis)))
    return Stored(name, stored.order)


CUMSUM_TYPES = (float32, float64, int32, int64)
ROWS: dict[str, Row] = {"cumsum": _cumsum, "gelu": _gelu}

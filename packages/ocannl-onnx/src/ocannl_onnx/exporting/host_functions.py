"""Host calls that operators of ONNX compute: orders along one axis."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.ir.host_call import HostCall
from ocannl.ir.precision import bool_, int32, int64
from ocannl.ir.tnode import TNode
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.array_orders import FirstOfGroups, OfRanks
from ocannl.lang.ops.ordering import AlongAxis
from ocannl_onnx.exporting.grids import Grid, NoForm, require_order
from ocannl_onnx.exporting.loads import Stored
from ocannl_onnx.exporting.statements import Statements


class HostFunctions:
    """Translates the host calls of tensors, given by their nodes."""

    def __init__(self, tensors: Mapping[TNode, Tensor]) -> None:
        self._tensors = tensors

    def __call__(self, call: HostCall, statements: Statements) -> None:
        """Sets the values of the results. Raises: NoForm."""
        result, operand = call.outputs[0], call.inputs[0]
        tensor = None if result is None else self._tensors.get(result)
        function = call.function
        if not isinstance(function, AlongAxis | FirstOfGroups) or tensor is None or result is None:
            raise NoForm(f"the host call `{call.name}` is no operator of ONNX")
        assert isinstance(operand, TNode)
        settings = tensor.operation.settings if tensor.operation is not None else {}
        selection = function.function if isinstance(function, AlongAxis) else None
        ranks = selection.ranks if isinstance(selection, OfRanks) else None
        is_largest = settings.get("largest", True) if call.name == "topk" else settings.get("descending", False)
        builder, grids, stored = statements.builder, statements.grids, statements.values[operand]
        require_order(call.name, operand.precision)
        grid = Grid(grids.from_storage(stored.name, operand.precision), (), operand.precision)
        if operand.precision is bool_:
            grid = grids.converted(grid, int32)
        axis = stored.order.index(function.number)
        count = builder.integers((result if ranks is None else operand).dims[function.number])
        values, ids = builder.nodes_of(
            "TopK", [grid.name, count], 2, axis=axis, largest=int(is_largest), sorted=1
        )
        if ranks is not None:
            ids = builder.node("Gather", ids, builder.integers(*ranks), axis=axis)
        ordered = Grid(values, (), grid.kind) if call.name == "sort" else Grid(ids, (), int64)
        converted = grids.converted(ordered, result.precision)
        statements.values[result] = Stored(grids.to_storage(converted), stored.order)

"""Host calls that operators of ONNX compute: orders along one axis."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.ir.host_call import HostCall
from ocannl.ir.precision import bool_, int32, int64
from ocannl.ir.tnode import TNode
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.along_axis import single_axis
from ocannl.lang.ops.ordering import axis_number
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
        if call.name not in ("sort", "argsort", "topk") or tensor is None or result is None:
            raise NoForm(f"the host call `{call.name}` is no operator of ONNX")
        assert isinstance(operand, TNode)
        settings = tensor.operation.settings if tensor.operation is not None else {}
        assert tensor.application is not None
        axes, axis = single_axis(tensor.application.operands[0], settings.get("spec"), {}, call.name)
        number = axis_number(axes, axis)
        is_largest = settings.get("largest", True) if call.name == "topk" else settings.get("descending", False)
        builder, grids, stored = statements.builder, statements.grids, statements.values[operand]
        require_order(call.name, operand.precision)
        grid = Grid(grids.from_storage(stored.name, operand.precision), (), operand.precision)
        if operand.precision is bool_:
            grid = grids.converted(grid, int32)
        count = builder.integers(result.dims[number])
        values, ids = builder.nodes_of(
            "TopK", [grid.name, count], 2, axis=stored.order.index(number), largest=int(is_largest), sorted=1
        )
        ordered = Grid(values, (), grid.kind) if call.name == "sort" else Grid(ids, (), int64)
        converted = grids.converted(ordered, result.precision)
        statements.values[result] = Stored(grids.to_storage(converted), stored.order)

"""Orders along one axis: sorting, and the largest or smallest cells.

NaN is greater than all numbers, as in NumPy and PyTorch. Orders are computed by NumPy, in host calls: O(n log n) for an
axis of n cells. Compiled code selects the largest cells of a short axis, in rounds. Those of a long one are searched in
groups, whose extremes the compiled code computes. Gradients are scattered to the cells that the results come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ocannl.base.errors import DataError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.ir.precision import int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.group_extremes import GroupExtremes, group_extremes
from ocannl.lang.core.host_calls import SlotHostCall, host_call
from ocannl.lang.core.indirect_axes import labelled_axes
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.selection_rounds import SelectionRounds, are_rounds_fast
from ocannl.lang.core.symbolic_terms import Hole, Term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import axis_spec, rename_axis, single_axis
from ocannl.lang.ops.array_orders import (
    ArrayFunction,
    FirstOfGroups,
    OfRanks,
    comparable,
    group_size,
    in_order,
    stable_order,
)
from ocannl.lang.ops.gathers import take_cells
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.reduced_axes import ReducedAxes

Array = np.ndarray[Any, Any]


@composite
def sort(x: object, spec: str | None = None, *, descending: bool = False, **names: Any) -> Tensor:
    """The cells in ascending or descending order along one axis: the axis that the spec removes, or the only output
    axis.

        oc.sort(x, "...|t,c => ...|c")  # along t

    NaN is greater than all numbers.

    Shapes: those of `x`.
    Grad:   `g`, moved to the cells that the values come from.
    Raises: CodeError unless the spec removes exactly one axis; ShapeError.
    Source: NumPy and PyTorch `sort`.
    """
    axes, axis = single_axis(x, spec, names, "sort")
    return sorted_cells(axes, axis, bool(descending))


@composite
def argsort(x: object, spec: str | None = None, *, descending: bool = False, **names: Any) -> Tensor:
    """The int32 indices that sort one axis: the axis that the spec removes, or the only output axis.

        oc.argsort(x, "...|t,c => ...|c")  # along t

    The order is stable: indices of equal cells ascend. NaN is greater than all numbers.

    Shapes: those of `x`.
    Grad:   none.
    Raises: CodeError unless the spec removes exactly one axis; ShapeError.
    Source: NumPy and PyTorch `argsort`.
    """
    axes, axis = single_axis(x, spec, names, "argsort")
    operand = axes.logic.spec.operands[0]

    def forward(s: Slots) -> None:
        ids = _along(axes, axis, lambda cells: stable_order(cells, descending))
        s.result().write(None, True, host_call(ids, s.operands[0], name="argsort"))

    logic = einsum(Spec((operand,), operand))
    operation = Operation("argsort", logic, forward, None, result_type=ResultType(int32), sizes=axes.sizes)
    return apply(operation, [axes.x], captures=axes.captures)


@composite
def topk(x: object, k: int, spec: str | None = None, *, largest: bool = True, **names: Any) -> tuple[Tensor, Tensor]:
    """The `k` largest cells along one axis in descending order, or with `largest=False` the smallest in ascending
    order, and their int32 indices. The axis is the one that the spec removes, or the only output axis.

        values, ids = oc.topk(x, 3, "...|t,c => ...|c")  # of t

    Of equal cells, those of lower indices come first. NaN is greater than all numbers. A long axis of n cells takes
    O(n + k log k) operations in a host call. A few cells of a short axis are selected by compiled code, one after
    another.

    Shapes: those of `x`, except for the size `k` of the axis.
    Grad:   `g`, added to the selected cells; none to the indices.
    Raises: CodeError unless the spec removes exactly one axis; DataError unless `k` is a nonnegative integer;
            ShapeError if the axis has fewer cells.
    Source: PyTorch and ONNX `topk`.
    """
    axes, axis = single_axis(x, spec, names, "topk")
    if is_bool(k) or not isinstance(k, int | np.integer) or k < 0:
        raise DataError(f"oc.topk: the number of cells is a nonnegative integer, not {k!r}"[:200])

    def select(s: Slots) -> None:
        number = axis_number(axes, axis)
        size, operand, target = axes.x.dims[number], s.operands[0], s.result()
        if size < k:
            raise ShapeError(f"`topk` of `{axes.x.label}`: k is {k}, but the axis has {size} cells")
        source = operand.tree.node if isinstance(operand.tree, Hole) and k and 0 not in axes.x.dims else None
        if source is not None and source.dims != axes.x.dims:
            source = None  # the operand of a rewritten graph
        group, before = group_size(size, int(k)), len(s.out)
        if source is not None and group is not None:
            extremes = group_extremes(source, number, group, MAX if largest else MIN)
            s.out.append(extremes)
            first = FirstOfGroups(number, int(k), largest, group)
            target.write(None, True, host_call(first, operand, Term(Hole(extremes.target, 1)), name="topk"))
        else:
            order = _along(axes, axis, lambda cells: stable_order(cells, largest)[..., :k])
            target.write(None, True, host_call(order, operand, name="topk"))
        if source is not None and are_rounds_fast(source, number, int(k)):
            search = cast("list[SlotHostCall | GroupExtremes]", s.out[before:])
            s.out[before:] = [SelectionRounds(target.hole.node, source, number, largest, tuple(search))]

    ids = _ids_along(axes, axis, "topk", select, int(k))
    return take_cells(axes, axis, ids), ids


def cells_of_ranks(axes: ReducedAxes, axis: str, title: str, ranks: Callable[[int], list[int]], count: int) -> Tensor:
    """The tensor with `count` cells of the sorted axis in place of the axis, given their positions for each size."""

    def select(s: Slots) -> None:
        size = axes.x.dims[axis_number(axes, axis)]
        s.result().write(
            None, True, host_call(_along(axes, axis, OfRanks(tuple(ranks(size)))), s.operands[0], name=title)
        )

    return take_cells(axes, axis, _ids_along(axes, axis, title, select, count))


def _ids_along(axes: ReducedAxes, axis: str, title: str, forward: Callable[[Slots], None], count: int) -> Tensor:
    """The int32 indices of `count` cells along one axis, which `forward` computes."""
    operand, new = axes.logic.spec.operands[0], f"{axis}'"  # no user can write such a name
    logic, sizes = einsum(Spec((operand,), rename_axis(operand, axis, new))), {**axes.sizes, new: count}
    operation = Operation(title, logic, forward, None, result_type=ResultType(int32), sizes=sizes)
    return apply(operation, [axes.x], captures=axes.captures)


def sorted_cells(axes: ReducedAxes, axis: str, descending: bool = False) -> Tensor:
    """The tensor with the cells along one axis in order."""
    positions, operand, new = indices(), axes.logic.spec.operands[0], f"{axis}'"

    def forward(s: Slots) -> None:
        cells = _along(axes, axis, lambda cells: in_order(cells, descending))
        s.result().write(None, True, host_call(cells, s.operands[0], name="sort"))

    def gradient(s: Slots) -> None:
        source = s.local("source", 0, int32)
        ids = _along(axes, axis, lambda cells: stable_order(cells, descending))
        source.write(None, True, host_call(ids, s.operands[0], name="argsort"))
        s.operand_gradient(1).write(ADD, False, s.gradient(), {axis: source})

    logic = einsum(Spec((operand, axis_spec(axis), axis_spec(new)), rename_axis(operand, axis, new)))
    kind = None if axes.x.typing.is_float else axes.x.typing.current
    result_type = ResultType(kind, weak_operands=frozenset({1, 2}))
    operation = Operation("sort", logic, forward, gradient, result_type=result_type, sizes=axes.sizes)
    return apply(operation, [axes.x, positions, positions], captures=axes.captures)


def axis_number(axes: ReducedAxes, axis: str) -> int:
    """The position of a labelled axis in memory order."""
    return dict(labelled_axes(axes.logic.spec.operands[0], axes.x.shape))[axis]


def _along(axes: ReducedAxes, axis: str, function: ArrayFunction) -> AlongAxis:
    return AlongAxis(function, axis_number(axes, axis))


@dataclass(frozen=True)
class AlongAxis:
    """A function of the last axis of an array, applied along an axis of the tensor."""

    function: ArrayFunction
    number: int

    def __call__(self, array: Array) -> Array:
        return np.moveaxis(self.function(comparable(np.moveaxis(array, self.number, -1))), -1, self.number)


REGISTRY.update(sort=sort, argsort=argsort, topk=topk)

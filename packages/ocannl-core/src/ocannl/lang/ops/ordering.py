"""Orders along one axis: sorting, and the largest or smallest cells.

NaN is greater than all numbers, as in NumPy and PyTorch. Orders are computed by NumPy, in host calls: O(n log n) for an
axis of n cells. Gradients are scattered to the cells that the results come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ocannl.base.errors import DataError, ShapeError
from ocannl.base.row_blocks import for_each_block
from ocannl.infer.logic import einsum
from ocannl.infer.spec import Spec
from ocannl.ir.ops import ADD
from ocannl.ir.precision import int32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.indirect_axes import labelled_axes
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import axis_spec, rename_axis, single_axis
from ocannl.lang.ops.gathers import take_along_axis
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.reduced_axes import ReducedAxes

Array = np.ndarray[Any, Any]
ArrayFunction = Callable[[Array], Array]


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
        ids = _along(axes, axis, lambda cells: _stable_order(cells, descending))
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
    O(n + k log k) operations, unless many cells are equal to the last one that is selected; a short one is sorted.

    Shapes: those of `x`, except for the size `k` of the axis.
    Grad:   `g`, added to the selected cells; none to the indices.
    Raises: CodeError unless the spec removes exactly one axis; DataError unless `k` is a nonnegative integer;
            ShapeError if the axis has fewer cells.
    Source: PyTorch and ONNX `topk`.
    """
    axes, axis = single_axis(x, spec, names, "topk")
    if is_bool(k) or not isinstance(k, int | np.integer) or k < 0:
        raise DataError(f"oc.topk: the number of cells is a nonnegative integer, not {k!r}"[:200])
    operand = axes.logic.spec.operands[0]

    def forward(s: Slots) -> None:
        size = axes.x.dims[axis_number(axes, axis)]
        if size < k:
            raise ShapeError(f"`topk` of `{axes.x.label}`: k is {k}, but the axis has {size} cells")
        ids = _along(axes, axis, lambda cells: _first_in_order(cells, int(k), largest))
        s.result().write(None, True, host_call(ids, s.operands[0], name="topk"))

    new = f"{axis}'"  # no user can write such a name
    logic, sizes = einsum(Spec((operand,), rename_axis(operand, axis, new))), {**axes.sizes, new: int(k)}
    operation = Operation("topk", logic, forward, None, result_type=ResultType(int32), sizes=sizes)
    ids = apply(operation, [axes.x], captures=axes.captures)
    return take_along_axis(axes.x, ids, spec, **names), ids


def sorted_cells(axes: ReducedAxes, axis: str, descending: bool = False) -> Tensor:
    """The tensor with the cells along one axis in order."""
    positions, operand, new = indices(), axes.logic.spec.operands[0], f"{axis}'"

    def forward(s: Slots) -> None:
        cells = _along(axes, axis, lambda cells: _ordered(cells, descending))
        s.result().write(None, True, host_call(cells, s.operands[0], name="sort"))

    def gradient(s: Slots) -> None:
        source = s.local("source", 0, int32)
        ids = _along(axes, axis, lambda cells: _stable_order(cells, descending))
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


# --- functions of arrays ---------------------------------------------------------------------------------------------


def _along(axes: ReducedAxes, axis: str, function: ArrayFunction) -> ArrayFunction:
    """A function of the last axis of an array, applied along an axis of the tensor."""
    number = axis_number(axes, axis)

    def call(array: Array) -> Array:
        return np.moveaxis(function(_comparable(np.moveaxis(array, number, -1))), -1, number)

    return call


def _comparable(cells: Array) -> Array:
    """The array in a type that NumPy orders natively."""
    return cells if cells.dtype.kind in "biu" or cells.dtype in (np.float32, np.float64) else cells.astype(np.float32)


def _ordered(cells: Array, descending: bool) -> Array:
    ascending = np.array(cells, order="C").reshape(-1, cells.shape[-1] or 1)
    for_each_block(lambda block: ascending[block].sort(axis=-1), *ascending.shape)
    ascending = ascending.reshape(cells.shape)
    return ascending[..., ::-1] if descending else ascending


def _stable_order(cells: Array, descending: bool) -> Array:
    """The indices of a stable sort. Types of at most 32 bits are sorted as numbers of 64 bits: a cell, and its index as
    the low bits. All of these numbers differ, so that a sort which is not stable, but faster, has the same result."""
    if cells.dtype.itemsize > 4 or cells.size == 0:
        return _stable_order_of_wide_cells(cells, descending)
    rows = cells.reshape(-1, cells.shape[-1])
    order = np.empty(rows.shape, np.int32)

    def write(block: slice) -> None:
        keys = _keys(rows[block], np.arange(rows.shape[-1]), descending)
        keys.sort(axis=-1)
        order[block] = keys  # the low bits

    for_each_block(write, *rows.shape)
    return order.reshape(cells.shape)


def _stable_order_of_wide_cells(cells: Array, descending: bool) -> Array:
    """Descending orders are ascending orders of the reversed array, so that indices of equal cells ascend."""
    order = np.argsort(cells[..., ::-1] if descending else cells, axis=-1, kind="stable").astype(np.int32)
    return cells.shape[-1] - 1 - order[..., ::-1] if descending else order


def _keys(cells: Array, indices: Array, descending: bool) -> Array:
    """Integers in the order of the cells, with their indices as the low bits."""
    keys = _ordinals(cells).astype(np.int64)
    if descending:
        np.invert(keys, out=keys)
    keys <<= 32
    keys |= indices
    return keys


def _ordinals(cells: Array) -> Array:
    """Integers of 32 bits with a sign, or less, in the order of the cells; equal cells have equal integers."""
    if cells.dtype == np.uint32:
        return (cells ^ np.uint32(1 << 31)).view(np.int32)
    if cells.dtype.kind != "f":
        return cells
    bits = (np.where(np.isnan(cells), np.float32(np.nan), cells) + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _first_in_order(cells: Array, k: int, descending: bool) -> Array:
    """The first `k` indices of the stable order, in blocks of rows."""
    size, groups = cells.shape[-1], _GROUPS_PER_SELECTED_CELL * k
    max_sorted = groups - 1 if cells.dtype.itemsize > 4 else max(_SHORT_ROW, 2 * groups)
    if k == 0 or cells.size == 0 or size <= max_sorted:
        return _stable_order(cells, descending)[..., :k]
    rows = cells.reshape(-1, size)
    ids = np.empty((len(rows), k), np.int32)

    def write(block: slice) -> None:
        ids[block] = _first_of_rows(rows[block], k, descending)

    for_each_block(write, *rows.shape)
    return ids.reshape(*cells.shape[:-1], k)


_GROUPS_PER_SELECTED_CELL = 8
_CELLS_PER_GROUP = 16
_MAX_GROUPS = 256  # of a long row, unless `k` needs more: with few groups, NumPy's loops over them are short
_MAX_PADDING = 4  # cells of a table of candidates, for each candidate; rows with many ties have many
_SHORT_ROW = 256  # cells that NumPy sorts faster than it finds candidates


def _first_of_rows(rows: Array, k: int, descending: bool) -> Array:
    """Sorts candidates only. Each row is divided into groups: the k-th of the extremes of groups is not after the k-th
    cell, so cells after this bound are no candidates."""
    size = rows.shape[-1]
    groups = max(_GROUPS_PER_SELECTED_CELL * k, min(_MAX_GROUPS, size // _CELLS_PER_GROUP))
    grouped = rows[:, : size // groups * groups].reshape(len(rows), -1, groups)
    extremes = grouped.max(1) if descending else np.fmin.reduce(grouped, axis=1)
    rank = groups - k if descending else k - 1
    bound = np.partition(extremes, rank, axis=-1)[:, rank : rank + 1]
    row, column = np.divmod(np.flatnonzero(~(rows < bound) if descending else ~(rows > bound)), size)
    values, starts = rows[row, column], np.searchsorted(row, np.arange(len(rows) + 1))
    width = int(np.diff(starts).max())
    if values.dtype.itemsize <= 4 and len(rows) * width <= _MAX_PADDING * len(values):
        table = np.full((len(rows), width), np.iinfo(np.int64).max)
        table[row, np.arange(len(row)) - starts[row]] = _keys(values, column, descending)
        table.sort(axis=-1)
        return table[:, :k].astype(np.int32)  # the low bits
    if descending:  # as in `_stable_order_of_wide_cells`
        order = len(row) - 1 - np.lexsort((values[::-1], -row[::-1]))[::-1]
    else:
        order = np.lexsort((values, row))
    first: Array = column[order[starts[:-1, None] + np.arange(k)]]
    return first


REGISTRY.update(sort=sort, argsort=argsort, topk=topk)

"""Gathers, scatters, and selections by index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import along, concatenated, expanded, positions_along, reshaped, sliced, taken
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value

MODES: dict[str, Any] = {"none": "set", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def from_left(ids: oc.Tensor, size: int | oc.Tensor) -> oc.Tensor:
    """Indices with those below 0 counted from the end."""
    ids = oc.cast(ids, oc.int64)
    return oc.where(ids < 0, ids + size, ids)


@operator("Gather", spelling="oc.take(x, ids)", restrictions=("indices out of range give 0",))
def gather(call: NodeCall) -> Value:
    x, axis = call.tensor(0), call.axis(0)
    indices = call.static(1)
    if indices is not None and indices.size == 1:
        return _part(call, x, axis, int(indices.reshape(-1)[0]), indices.shape)
    ids = indices if indices is not None and (indices.size == 0 or indices.min() >= 0) else None
    return taken(x, ids if ids is not None else from_left(call.tensor(1), x.dims[axis]), axis)


def _part(call: NodeCall, x: oc.Tensor, axis: int, index: int, dims: tuple[int, ...]) -> oc.Tensor:
    call.require(-x.dims[axis] <= index < x.dims[axis], f"index {index} of an axis of {x.dims[axis]}")
    index %= x.dims[axis]
    part = sliced(x, axis, index, index + 1)
    return reshaped(part, (*x.dims[:axis], *dims, *x.dims[axis + 1 :]))


@operator("GatherElements", spelling="oc.take_along_axis(x, ids, spec)")
def gather_elements(call: NodeCall) -> Value:
    x, axis = call.tensor(0), call.axis(0)
    ids = from_left(call.tensor(1), x.dims[axis])
    x = _cropped(x, ids.dims, axis)
    return oc.take_along_axis(x, ids, along(len(x.dims), axis))


def _cropped(x: oc.Tensor, dims: tuple[int, ...], axis: int) -> oc.Tensor:
    """`x` with the sizes of the indices, which may be smaller, except along the axis."""
    for n, size in enumerate(dims):
        if n != axis:
            x = sliced(x, n, 0, size)
    return x


def tuples(ids: oc.Tensor, dims: tuple[int, ...]) -> oc.Tensor:
    """Index tuples along the last axis, with those below 0 counted from the end."""
    return from_left(ids, oc.tensor(np.array(dims[: ids.dims[-1]], np.int64)))


@operator("GatherND", spelling="oc.gather_nd(x, ids)")
def gather_nd(call: NodeCall) -> Value:
    x, ids = call.tensor(0), call.tensor(1)
    batch = call.attribute("batch_dims", 0)
    ids = tuples(ids, x.dims[batch:])
    if batch == 0:
        return oc.gather_nd(x, ids)
    return oc.gather_nd(x, _with_batch(ids, batch))


def _with_batch(ids: oc.Tensor, batch: int) -> oc.Tensor:
    """Index tuples that begin with the position in the batch axes."""
    shape = (*ids.dims[:-1], 1)
    positions = [expanded(positions_along(axis, ids.dims[axis], len(shape)), shape) for axis in range(batch)]
    return concatenated([*positions, ids], len(shape) - 1)


@operator("ScatterElements", "Scatter", spelling="oc.put_along_axis(x, ids, values, spec, mode=)")
def scatter_elements(call: NodeCall) -> Value:
    x, ids, values, axis = call.tensor(0), call.tensor(1), call.tensor(2), call.axis(0)
    ids = from_left(ids, x.dims[axis])
    mode = MODES[call.attribute("reduction", "none")]
    if all(size == x.dims[n] for n, size in enumerate(ids.dims) if n != axis):
        return oc.put_along_axis(x, ids, values, along(len(x.dims), axis), mode=mode)
    return oc.scatter_nd(x, _cell_indices(ids, axis), values, mode=mode)


def _cell_indices(ids: oc.Tensor, axis: int) -> oc.Tensor:
    """For each cell of `ids` the index tuple of the cell that it selects along an axis."""
    rank = len(ids.dims)
    columns = []
    for n in range(rank):
        column = ids if n == axis else expanded(positions_along(n, ids.dims[n], rank), ids.dims)
        columns.append(reshaped(column, (*ids.dims, 1)))
    return concatenated(columns, rank)


@operator("ScatterND", spelling="oc.scatter_nd(x, ids, values, mode=)")
def scatter_nd(call: NodeCall) -> Value:
    x, ids, values = call.tensor(0), call.tensor(1), call.tensor(2)
    return oc.scatter_nd(x, tuples(ids, x.dims), values, mode=MODES[call.attribute("reduction", "none")])


@operator("Compress", spelling="oc.take, with positions known while importing")
def compress(call: NodeCall) -> Value:
    x = call.tensor(0)
    condition = call.constant(1).reshape(-1)
    if "axis" not in call.node.attributes:
        x, axis = reshaped(x, (math.prod(x.dims),)), 0
    else:
        axis = call.axis()
    return taken(x, condition.nonzero()[0], axis)

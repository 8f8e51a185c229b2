"""Operators of attention that ONNX does not define as functions: the update of a cache."""

from __future__ import annotations

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import along, expanded, reshaped
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value


@operator("TensorScatter", spelling="oc.where(positions, oc.take_along_axis(update, ids, spec), cache)")
def tensor_scatter(call: NodeCall) -> Value:
    """Writes the update from a position of the sequence axis on, which may differ for each element of the batch."""
    cache, update = call.tensor(0), call.tensor(1)
    rank, mode = len(cache.dims), call.attribute("mode", "linear")
    call.require(mode in ("linear", "circular"), f"mode {mode!r}")
    axis = call.position(call.attribute("axis", -2), rank)
    call.require(axis > 0, "the batch axis as the axis of the sequence")
    size, length = cache.dims[axis], update.dims[axis]
    call.require(length <= size, f"an update of {length} positions of {size}")
    ids = reshaped(oc.cast(oc.iota(size), oc.int64), [size if n == axis else 1 for n in range(rank)])
    if call.has(2):
        starts = oc.cast(call.tensor(2), oc.int64)
        ids = ids - reshaped(starts, [starts.dims[0] if n == 0 else 1 for n in range(rank)])
        ids = oc.where(ids < 0, ids + size, ids) if mode == "circular" else ids
    is_written = oc.and_(ids >= 0, ids < length)
    values = oc.take_along_axis(update, expanded(ids, cache.dims), along(rank, axis))
    return oc.where(is_written, values, cache)

"""Sequences and optionals, which exist while importing: lists of values, and None."""

from __future__ import annotations

import numpy as np

from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import concatenated, reshaped, sliced, unsqueezed
from ocannl_onnx.registry import operator
from ocannl_onnx.values import StaticArray, Value, as_tensor

LIST = "a list, known while importing"
MAX_PARTS = 2**12  # of a tensor that is split to a sequence


def sequence(call: NodeCall, position: int) -> list[Value]:
    """An input that is a sequence. Raises: UnsupportedModel."""
    value = call.value(position)
    if not isinstance(value, list):
        call.refuse(f"input {position} is no sequence")
    return value


def _index(call: NodeCall, position: int, length: int) -> int:
    """A constant position in a sequence, from the left; `length` is one more than the largest."""
    index = int(call.constant(position).reshape(-1)[0])
    call.require(-length <= index < length, f"position {index} of a sequence of {length} elements")
    return index % length


def _number(value: int) -> StaticArray:
    return StaticArray(np.array(value, np.int64), "length")


@operator("SequenceConstruct", spelling=LIST)
def sequence_construct(call: NodeCall) -> tuple[Value, ...]:
    return (list(call.values),)


@operator("SequenceEmpty", spelling=LIST)
def sequence_empty(call: NodeCall) -> tuple[Value, ...]:
    return ([],)


@operator("SequenceInsert", spelling=LIST, restrictions=("the position has to be constant",))
def sequence_insert(call: NodeCall) -> tuple[Value, ...]:
    values = sequence(call, 0)
    if not call.has(2):
        return ([*values, call.value(1)],)
    index = int(call.constant(2).reshape(-1)[0])
    call.require(-len(values) <= index <= len(values), f"position {index} in a sequence of {len(values)} elements")
    index = index + len(values) if index < 0 else index
    return ([*values[:index], call.value(1), *values[index:]],)


@operator("SequenceErase", spelling=LIST, restrictions=("the position has to be constant",))
def sequence_erase(call: NodeCall) -> tuple[Value, ...]:
    values = sequence(call, 0)
    call.require(bool(values), "an empty sequence")
    index = _index(call, 1, len(values)) if call.has(1) else len(values) - 1
    return ([*values[:index], *values[index + 1 :]],)


@operator("SequenceAt", spelling=LIST, restrictions=("the position has to be constant",))
def sequence_at(call: NodeCall) -> Value:
    values = sequence(call, 0)
    call.require(bool(values), "an empty sequence")
    return values[_index(call, 1, len(values))]


@operator("SequenceLength", spelling=LIST)
def sequence_length(call: NodeCall) -> Value:
    return _number(len(sequence(call, 0)))


@operator("SplitToSequence", spelling="oc.concat, with parts of the axis", restrictions=("constant sizes of parts",))
def split_to_sequence(call: NodeCall) -> tuple[Value, ...]:
    x, axis = call.tensor(0), call.axis(0)
    length = x.dims[axis]
    sizes = call.integers(1) if call.has(1) else [1]
    if not call.has(1) or call.constant(1).ndim == 0:
        size = sizes[0]
        call.require(size > 0, f"parts of size {size}")
        starts = range(0, length, size)
        call.require(len(starts) <= MAX_PARTS, f"{len(starts)} parts")
        sizes = [min(size, length - start) for start in starts]
    call.require(sum(sizes) == length and min(sizes, default=0) >= 0, f"parts {sizes} of an axis of {length}")
    ends = np.cumsum(sizes).tolist()
    parts = [sliced(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]
    if not call.has(1) and not call.attribute("keepdims", 1):
        parts = [reshaped(part, (*x.dims[:axis], *x.dims[axis + 1 :])) for part in parts]
    return (parts,)


@operator("ConcatFromSequence", spelling='oc.concat("a; b => a^b", x, y)')
def concat_from_sequence(call: NodeCall) -> Value:
    values = [as_tensor(value) for value in sequence(call, 0)]
    call.require(bool(values), "an empty sequence")
    new = bool(call.attribute("new_axis", 0))
    axis = call.position(call.attribute("axis"), len(values[0].dims) + new)
    return concatenated([unsqueezed(x, [axis]) for x in values] if new else values, axis)


@operator("SequenceMap", spelling="the body for each element")
def sequence_map(call: NodeCall) -> tuple[Value, ...]:
    length = len(sequence(call, 0))
    for value in call.values[1:]:
        call.require(not isinstance(value, list) or len(value) == length, "sequences of different lengths")
    steps = [
        call.subgraph("body", [value[n] if isinstance(value, list) else value for value in call.values])
        for n in range(length)
    ]
    return tuple([results[n] for results in steps] for n in range(len(call.graph("body").outputs)))


@operator("Optional", spelling="a value or None, known while importing")
def optional(call: NodeCall) -> tuple[Value, ...]:
    return (call.value(0),)


@operator("OptionalHasElement", spelling="a value or None, known while importing")
def optional_has_element(call: NodeCall) -> Value:
    return StaticArray(np.array(call.value(0) is not None), "has_element")


@operator("OptionalGetElement", spelling="a value or None, known while importing")
def optional_get_element(call: NodeCall) -> tuple[Value, ...]:
    call.require(call.has(0), "an empty optional")
    return (call.value(0),)

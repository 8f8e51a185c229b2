"""If, Loop and Scan: as branches and loops of the program, or unrolled while importing.

Loops become `oc.scan` where the number of steps is constant, and `oc.while_loop` otherwise. A loop whose values change
their shape, or are sequences, is unrolled, which needs a constant number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ocannl as oc
from ocannl.base.errors import CodeError, DtypeError, OcannlError, ShapeError
from ocannl_onnx.call import NodeCall
from ocannl_onnx.errors import UnsupportedModel
from ocannl_onnx.layout import along, concatenated, full, moved, reshaped, sliced, unsqueezed
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Initializer, StaticArray, Value, as_tensor, static_array

MAX_STEPS = 2**31 - 1  # of a loop without a limit
MAX_BOUND = 2**16  # steps of a loop of the program, whose time grows with the limit
MAX_UNROLLED = 4096  # steps of a loop that is unrolled


class NotUniform(Exception):
    """The branches, or the steps of a loop, have values of different kinds, types or shapes."""


def _tensors(values: Sequence[Value]) -> tuple[oc.Tensor, ...]:
    if not all(isinstance(value, oc.Tensor | StaticArray | Initializer) for value in values):
        raise NotUniform("sequences and optionals")
    return tuple(as_tensor(value) for value in values)


def _is_true(value: Value) -> bool | None:
    """The value of a constant condition, None for others."""
    array = value.array if isinstance(value, StaticArray) else None
    return None if array is None else bool(np.asarray(array).reshape(-1)[0])


def _scalar(value: Value) -> oc.Tensor:
    return reshaped(as_tensor(value), ())


def _with_fixed_shapes(carry: Sequence[oc.Tensor]) -> Sequence[oc.Tensor]:
    """A carry whose shapes are those of its start: scalars would otherwise take the shapes that they are used with."""
    for value in carry:
        _ = value.dims  # fixes the shape
    return carry


# --- branches ------------------------------------------------------------------------------------


@operator(
    "If",
    spelling="the branch of a constant condition, or oc.cond(condition, f, g)",
    restrictions=("branches with different shapes or types: the condition has to be constant",),
)
def if_(call: NodeCall) -> tuple[Value, ...]:
    condition = _is_true(call.value(0))
    if condition is not None:
        return tuple(call.subgraph("then_branch" if condition else "else_branch"))
    try:
        return _branches(call)
    except (NotUniform, OcannlError):
        call.constant(0)  # raises NeedsConstant for the inputs of the model that decide the branch
        raise


def _branches(call: NodeCall) -> tuple[Value, ...]:
    names = "then_branch", "else_branch"
    results = oc.cond(_scalar(call.value(0)), *(lambda name=name: _tensors(call.subgraph(name)) for name in names))
    return tuple(results)


# --- loops ---------------------------------------------------------------------------------------


@operator(
    "Loop",
    spelling="oc.scan, oc.while_loop(condition, step, init, bound=), or its steps one after another",
    restrictions=(
        "without a constant limit, with changing shapes or sequences: what decides the steps has to be constant",
    ),
)
def loop(call: NodeCall) -> tuple[Value, ...]:
    states = [call.value(n) for n in range(2, len(call))]
    if not _is_static(call, states):
        try:
            return _compiled_loop(call, states)
        except (NotUniform, CodeError, DtypeError, ShapeError, UnsupportedModel):
            pass  # shapes that change from step to step, or depend on its number
    return _unrolled(call, states)


def _is_static(call: NodeCall, states: Sequence[Value]) -> bool:
    """Whether a loop is evaluated while importing: everything that it starts from is constant."""
    return bool(states) and all(value is None or isinstance(value, StaticArray | list) for value in call.values)


def _steps(call: NodeCall) -> int | None:
    """The constant number of steps; None when it is not constant, and `MAX_STEPS` without a limit."""
    if not call.has(0):
        return MAX_STEPS
    limit = call.static(0)
    return None if limit is None else max(0, min(MAX_STEPS, int(limit.reshape(-1)[0])))


def _compiled_loop(call: NodeCall, states: Sequence[Value]) -> tuple[Value, ...]:
    start = _is_true(call.value(1)) if call.has(1) else True
    steps, init = _steps(call), _tensors(states)
    if start is False or steps == 0:
        raise NotUniform("no steps")
    test = _body_condition(call, init)
    if steps is None or steps > MAX_BOUND:
        raise NotUniform("the number of steps has no constant limit")
    if start and test:
        return _scanned_loop(call, init, steps)
    if call.outputs > len(states):
        raise NotUniform("stacked results")
    condition = oc.tensor(np.array(True)) if start else _scalar(call.value(1))

    def step(carry: Any) -> Any:
        number, _, *values = _with_fixed_shapes(carry)
        again, *values = _tensors(call.subgraph("body", [number, oc.tensor(np.array(True)), *values]))
        return (number + 1, oc.cast(_scalar(again), oc.bool), *values)

    first = oc.tensor(np.array(0, np.int64))
    return tuple(oc.while_loop(lambda carry: carry[1], step, (first, condition, *init), bound=steps)[2:])


def _body_condition(call: NodeCall, init: Sequence[oc.Tensor]) -> bool:
    """Whether the body of a loop that has begun never ends it: its condition is the one it receives, or true."""
    entered = StaticArray(np.array(True), "condition")
    again, *_ = call.subgraph("body", [oc.tensor(np.array(0, np.int64)), entered, *init])
    return bool(_is_true(again))


def _scanned_loop(call: NodeCall, init: Sequence[oc.Tensor], steps: int) -> tuple[Value, ...]:
    entered = StaticArray(np.array(True), "condition")
    first = oc.tensor(np.array(0, np.int64))

    def step(carry: Any, _: Any) -> Any:
        number, *values = _with_fixed_shapes(carry)
        results = _tensors(call.subgraph("body", [number, entered, *values]))[1:]
        return (number + 1, *results[: len(init)]), results[len(init) :]

    carry, stacked = oc.scan(step, (first, *init), length=steps)
    return (*carry[1:], *stacked)


def _unrolled(call: NodeCall, states: Sequence[Value]) -> tuple[Value, ...]:
    steps = _steps(call)
    if steps is None:
        steps = max(0, min(MAX_STEPS, int(call.constant(0).reshape(-1)[0])))
    condition: Value = call.value(1) if call.has(1) else StaticArray(np.array(True), "condition")
    values, stacked, number = list(states), [], 0
    while number < steps:
        goes_on = _is_true(condition)
        if goes_on is None:
            call.needs_constant("the condition of a loop with stacked results or changing shapes")
        if not goes_on:
            break
        call.require(number < MAX_UNROLLED, f"a loop of more than {MAX_UNROLLED} steps that cannot be compiled")
        arguments = [StaticArray(np.array(number, np.int64), "step"), condition, *values]
        condition, *results = call.subgraph("body", arguments)
        values, number = results[: len(states)], number + 1
        stacked.append(results[len(states) :])
    return (*values, *_stacked(call, values, stacked))


def _stacked(call: NodeCall, values: Sequence[Value], stacked: Sequence[Sequence[Value]]) -> list[Value]:
    """The results of the steps, each along a new leading axis."""
    count = len(call.graph("body").outputs) - 1 - len(values)
    if not stacked:
        return [_no_steps(call, values, n) for n in range(count)]
    return [_along_steps(column) for column in zip(*stacked, strict=True)] if count else []


def _along_steps(column: Sequence[Value]) -> Value:
    arrays = [value.array for value in column if isinstance(value, StaticArray)]
    if len(arrays) == len(column):
        return StaticArray(np.stack(arrays), "steps")
    return concatenated([unsqueezed(as_tensor(value), [0]) for value in column], 0)


def _no_steps(call: NodeCall, values: Sequence[Value], number: int) -> Value:
    """The stacked result of a loop without steps: empty, of the shape and type that a step would have."""
    entered = [StaticArray(np.array(0, np.int64), "step"), StaticArray(np.array(True), "condition")]
    value = call.subgraph("body", [*entered, *values])[1 + len(values) + number]
    array = static_array(value)
    if array is not None:
        return StaticArray(np.zeros((0, *array.shape), array.dtype), "steps")
    return full(0, (0, *value.dims), value.dtype)


# --- scans ---------------------------------------------------------------------------------------


@operator("Scan", spelling="oc.scan(step, init, xs)", restrictions=("version 8 with sequence lengths",))
def scan(call: NodeCall) -> tuple[Value, ...]:
    return _scan_of_batches(call) if call.version < 9 else _scan(call)


def _scan(call: NodeCall) -> tuple[Value, ...]:
    inputs = call.attribute("num_scan_inputs")
    call.require(0 < inputs <= len(call), f"{inputs} scan inputs of {len(call)} inputs")
    states = len(call) - inputs
    body_outputs = len(call.graph("body").outputs) - states
    sequences = [call.tensor(n) for n in range(states, len(call))]
    axes = call.attribute("scan_input_axes", (0,) * inputs)
    reverse = call.attribute("scan_input_directions", (0,) * inputs)
    out_axes = call.attribute("scan_output_axes", (0,) * body_outputs)
    out_reverse = call.attribute("scan_output_directions", (0,) * body_outputs)
    for settings, count in ((axes, inputs), (reverse, inputs), (out_axes, body_outputs), (out_reverse, body_outputs)):
        call.require(len(settings) == count, f"{len(settings)} axes or directions for {count} sequences")
    xs = [
        _from_end(moved(x, call.position(axis, len(x.dims)), 0), back)
        for x, axis, back in zip(sequences, axes, reverse, strict=True)
    ]
    call.require(len({x.dims[0] for x in xs}) == 1, f"scan inputs of {', '.join(str(x.dims[0]) for x in xs)} steps")
    last, stacked = _scanned(call, [call.tensor(n) for n in range(states)], xs)
    results = [
        moved(_from_end(y, back), 0, call.position(axis, len(y.dims)))
        for y, axis, back in zip(stacked, out_axes, out_reverse, strict=True)
    ]
    return (*last, *results)


def _from_end(x: oc.Tensor, back: int) -> oc.Tensor:
    return oc.flip(x, along(len(x.dims), 0)) if back else x


def _scanned(
    call: NodeCall, init: Sequence[oc.Tensor], xs: Sequence[oc.Tensor]
) -> tuple[Sequence[oc.Tensor], Sequence[oc.Tensor]]:
    """The last states, and the results of the steps stacked along the leading axis."""
    position = oc.tensor(np.array(0, np.int32))  # a carry, because a scan may have no states

    def step(carry: Any, elements: Any) -> Any:
        number, *values = _with_fixed_shapes(carry)
        results = _tensors(call.subgraph("body", [*values, *elements]))
        return (number, *results[: len(init)]), results[len(init) :]

    try:
        carry, stacked = oc.scan(step, (position, *init), tuple(xs))
    except NotUniform:
        call.refuse("a body with sequences or optionals")
    return carry[1:], stacked


def _scan_of_batches(call: NodeCall) -> tuple[Value, ...]:
    """Version 8: every state and sequence begins with a batch axis, and the sequences have their steps second."""
    call.require(not call.has(0), "sequence lengths in version 8")
    inputs = call.attribute("num_scan_inputs")
    directions = call.attribute("directions", (0,) * inputs)
    values = [call.tensor(n) for n in range(1, len(call))]
    count = len(values) - inputs
    call.require(values[0].dims[0] <= MAX_UNROLLED, f"a batch of {values[0].dims[0]} examples in version 8")
    batches = []
    for example in range(values[0].dims[0]):
        parts = [reshaped(sliced(x, 0, example, example + 1), x.dims[1:]) for x in values]
        xs = [_from_end(x, back) for x, back in zip(parts[count:], directions, strict=True)]
        last, stacked = _scanned(call, parts[:count], xs)
        batches.append([*last, *stacked])
    return tuple(_along_steps(column) for column in zip(*batches, strict=True))

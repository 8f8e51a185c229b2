"""RNN, GRU and LSTM as scans over the steps: products with the inputs of all steps first, then one cell for each step.

The gates are an axis of their own: weights are `gate, hidden, input`, as in `W[direction]` split along its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import concatenated, full, reshaped, sliced, transposed, unsqueezed
from ocannl_onnx.operators.quantization import centered, dynamic_product
from ocannl_onnx.registry import operator
from ocannl_onnx.values import StaticArray, Value, as_tensor

Function = Callable[[oc.Tensor], oc.Tensor]


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation function with the default values of its parameters, None for those that it does not have."""

    function: Callable[[oc.Tensor, float, float], oc.Tensor]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS: dict[str, Activation] = {
    "affine": Activation(lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": Activation(lambda x, a, b: oc.elu(x, alpha=a), 1.0),
    "hardsigmoid": Activation(lambda x, a, b: oc.clip(a * x + b, 0.0, 1.0), 0.2, 0.5),
    "leakyrelu": Activation(lambda x, a, b: oc.where(x < 0, a * x, x), 0.01),
    "relu": Activation(lambda x, a, b: oc.relu(x)),
    "scaledtanh": Activation(lambda x, a, b: a * oc.tanh(b * x), 1.0, 1.0),
    "sigmoid": Activation(lambda x, a, b: oc.sigmoid(x)),
    "softplus": Activation(lambda x, a, b: oc.softplus(x)),
    "softsign": Activation(lambda x, a, b: oc.softsign(x)),
    "tanh": Activation(lambda x, a, b: oc.tanh(x)),
    "thresholdedrelu": Activation(lambda x, a, b: oc.where(x > a, x, 0.0), 1.0),
}
"""By their names in lower case: the names of ONNX do not distinguish cases."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction goes from the last step to the first."""


@dataclass(frozen=True, slots=True)
class CellWeights:
    """The weights of one direction, `gate, hidden, input`; biases are `gate, hidden`.

    With `scales`, the weights are integers, and their operands are rounded before the products. The weights of the
    inputs are then `input, gate, hidden`, as in ONNX.
    """

    inputs: oc.Tensor
    hidden: oc.Tensor
    input_bias: oc.Tensor | None
    hidden_bias: oc.Tensor | None
    peepholes: oc.Tensor | None
    scales: tuple[oc.Tensor, oc.Tensor] | None = None


@dataclass(frozen=True, slots=True)
class CellSettings:
    functions: Sequence[Function]
    is_linear_before_reset: bool
    is_coupled: bool


Cell = Callable[[oc.Tensor, Sequence[oc.Tensor], CellWeights, CellSettings], tuple[oc.Tensor, ...]]
"""The next states, the output first, from the products of a step with the inputs and the states before."""


def _gate(x: oc.Tensor, n: int) -> oc.Tensor:
    return oc.einsum(f"b,{n},h => b,h", x)


def _row(x: oc.Tensor, n: int) -> oc.Tensor:
    return oc.einsum(f"{n},h => h,", x)


def _input_products(xs: oc.Tensor, weights: CellWeights) -> oc.Tensor:
    """The products of the inputs of all steps, `step, batch, gate, hidden`."""
    if weights.scales is None:
        return oc.einsum("t,b,k; n,h,k => t,b,n,h", xs, weights.inputs)
    return dynamic_product(partial(oc.einsum, "t,b,k; k,n,h => t,b,n,h"), xs, weights.inputs, weights.scales[0])


def _product(h: oc.Tensor, weights: CellWeights) -> oc.Tensor:
    """The product of the state of a step, `batch, gate, hidden`."""
    product = partial(oc.einsum, "b,k; n,h,k => b,n,h")
    if weights.scales is None:
        return product(h, weights.hidden)
    return dynamic_product(product, h, weights.hidden, weights.scales[1])


def _with_bias(x: oc.Tensor, bias: oc.Tensor | None) -> oc.Tensor:
    return x if bias is None else x + bias


def _rnn(
    x: oc.Tensor, states: Sequence[oc.Tensor], weights: CellWeights, settings: CellSettings
) -> tuple[oc.Tensor, ...]:
    gates = _with_bias(x + _product(states[0], weights), weights.hidden_bias)
    return (settings.functions[0](_gate(gates, 0)),)


def _gru(
    x: oc.Tensor, states: Sequence[oc.Tensor], weights: CellWeights, settings: CellSettings
) -> tuple[oc.Tensor, ...]:
    (h,), (f, g) = states, settings.functions
    products = _with_bias(_product(h, weights), weights.hidden_bias)
    update, reset = (f(_gate(x, n) + _gate(products, n)) for n in range(2))
    if settings.is_linear_before_reset:
        candidate = g(_gate(x, 2) + reset * _gate(products, 2))
    else:
        product = oc.einsum("b,k; h,k => b,h", reset * h, oc.einsum("2,h,k => h,k", weights.hidden))
        bias = None if weights.hidden_bias is None else _row(weights.hidden_bias, 2)
        candidate = g(_gate(x, 2) + _with_bias(product, bias))
    return ((1 - update) * candidate + update * h,)


def _lstm(
    x: oc.Tensor, states: Sequence[oc.Tensor], weights: CellWeights, settings: CellSettings
) -> tuple[oc.Tensor, ...]:
    (h, c), (f, g, k) = states, settings.functions
    gates = _with_bias(x + _product(h, weights), weights.hidden_bias)

    def with_peephole(n: int, state: oc.Tensor, position: int) -> oc.Tensor:
        gate = _gate(gates, n)
        return gate if weights.peepholes is None else gate + _row(weights.peepholes, position) * state

    entry = f(with_peephole(0, c, 0))
    forget = 1 - entry if settings.is_coupled else f(with_peephole(2, c, 2))
    c = forget * c + entry * g(_gate(gates, 3))
    return f(with_peephole(1, c, 1)) * k(c), c


@dataclass(frozen=True, slots=True)
class Kind:
    """An operator: the cell, its number of gates, and the default activation functions; a state for each output."""

    cell: Cell
    gates: int
    functions: tuple[str, ...]
    states: int = 1


KINDS = {
    "RNN": Kind(_rnn, 1, ("Tanh",)),
    "GRU": Kind(_gru, 3, ("Sigmoid", "Tanh")),
    "LSTM": Kind(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"), states=2),
    "DynamicQuantizeLSTM": Kind(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"), states=2),
}


@operator("RNN", "GRU", "LSTM", spelling="oc.scan(cell, states, xs, reverse=)", restrictions=("version 1",))
def recurrent(call: NodeCall) -> tuple[Value, ...]:
    call.require(call.version >= 7, "version 1")
    kind = KINDS[call.node.operator]
    by_batch = bool(call.attribute("layout", 0))
    x = transposed(call.tensor(0), (1, 0, 2)) if by_batch else call.tensor(0)
    direction = call.attribute("direction", "forward")
    call.require(direction in DIRECTIONS, f"direction {direction!r}")
    settings = list(_settings(call, kind, len(DIRECTIONS[direction])))
    directions = [
        _direction(call, kind, x, n, settings[n], is_reverse) for n, is_reverse in enumerate(DIRECTIONS[direction])
    ]
    sequences, *states = zip(*directions, strict=True)
    sequence = _stacked(sequences, 1)
    last = [_stacked(column, 0) for column in states]
    if by_batch:
        return transposed(sequence, (2, 0, 1, 3)), *(transposed(state, (1, 0, 2)) for state in last)
    return sequence, *last


def _stacked(values: Sequence[oc.Tensor], axis: int) -> oc.Tensor:
    return concatenated([unsqueezed(value, [axis]) for value in values], axis)


def _settings(call: NodeCall, kind: Kind, directions: int) -> Iterator[CellSettings]:
    """The activation functions of each direction, with their parameters in the order of the functions."""
    names = call.attribute("activations", ()) or kind.functions * directions
    count = len(kind.functions)
    call.require(len(names) == count * directions, f"{len(names)} activations, not {count * directions}")
    alphas, betas = (iter(call.attribute(name, ())) for name in ("activation_alpha", "activation_beta"))
    clip = call.attribute("clip", None)
    functions = []
    for n, name in enumerate(names):
        activation = ACTIVATIONS.get(name.lower())
        if activation is None:
            call.refuse(f"the activation {name!r}")
        alpha, beta = (
            0.0 if default is None else next(parameters, default)
            for default, parameters in ((activation.alpha, alphas), (activation.beta, betas))
        )
        limit = clip if n % count < 2 else None  # the state of LSTM is not clipped, as in ONNX Runtime
        functions.append(partial(_activated, activation=activation, alpha=alpha, beta=beta, clip=limit))
    for n in range(directions):
        yield CellSettings(
            functions[n * count : (n + 1) * count],
            bool(call.attribute("linear_before_reset", 0)),
            bool(call.attribute("input_forget", 0)),
        )


def _activated(x: oc.Tensor, *, activation: Activation, alpha: float, beta: float, clip: float | None) -> oc.Tensor:
    return activation.function(x if clip is None else oc.clip(x, -clip, clip), alpha, beta)


def _part(call: NodeCall, position: int, direction: int, dims: Sequence[int]) -> oc.Tensor | None:
    """The weights or the bias of one direction, with other axes; None when the input is omitted."""
    x = call.optional(position)
    return None if x is None else reshaped(sliced(x, 0, direction, direction + 1), dims)


def _bias_row(bias: oc.Tensor | None, n: int) -> oc.Tensor | None:
    return None if bias is None else oc.einsum(f"{n},g,h => g,h", bias)


def _weights(call: NodeCall, kind: Kind, direction: int) -> CellWeights:
    is_quantized = call.node.operator == "DynamicQuantizeLSTM"
    gates, hidden = kind.gates, call.shape(2)[1 if is_quantized else 2]
    bias = _part(call, 3, direction, (2, gates, hidden))
    biases_and_peepholes = (_bias_row(bias, 0), _bias_row(bias, 1), _part(call, 7, direction, (3, hidden)))
    if is_quantized:
        inputs, input_scale = _quantized(call, 1, direction, gates, (0, 1, 2))
        recurrent, scale = _quantized(call, 2, direction, gates, (1, 2, 0))
        return CellWeights(inputs, recurrent, *biases_and_peepholes, (input_scale, scale))
    parts = (_part(call, n, direction, (gates, hidden, call.shape(n)[-1])) for n in (1, 2))
    inputs, recurrent = (part for part in parts if part is not None)
    return CellWeights(inputs, recurrent, *biases_and_peepholes)


def _quantized(
    call: NodeCall, position: int, direction: int, gates: int, order: Sequence[int]
) -> tuple[oc.Tensor, oc.Tensor]:
    """Integer weights of one direction less their zero point, and their scale: one for each direction or for each
    column. `order` permutes the axes `input, gate, hidden` of the file."""
    inputs, columns = call.shape(position)[1:]
    weights = _of_direction(call.value(position), direction, (inputs, gates, columns // gates))
    if isinstance(weights, StaticArray):
        weights = StaticArray(weights.array.transpose(order), weights.name)
    else:
        weights = transposed(weights, order)
    dims = () if len(call.shape(2 * position + 6)) == 1 else (1, gates, columns // gates)
    scale, zero = (_of_direction(call.value(2 * position + n), direction, dims) for n in (6, 7))
    return centered(weights, zero, [dims[axis] for axis in order] if dims else ()), reshaped(as_tensor(scale), dims[1:])


def _of_direction(x: Value, direction: int, dims: Sequence[int]) -> Value:
    if isinstance(x, StaticArray):
        return StaticArray(x.array[direction].reshape(dims), x.name)
    return None if x is None else reshaped(sliced(as_tensor(x), 0, direction, direction + 1), dims)


def _direction(
    call: NodeCall, kind: Kind, x: oc.Tensor, direction: int, settings: CellSettings, is_reverse: bool
) -> tuple[oc.Tensor, ...]:
    """The outputs of all steps, `step, batch, hidden`, and the last states."""
    weights = _weights(call, kind, direction)
    steps, batch, _ = x.dims
    hidden = weights.hidden.dims[-1]
    products = _with_bias(_input_products(x, weights), weights.input_bias)
    lengths = None if not call.has(4) else oc.cast(call.tensor(4), oc.int32)
    init = tuple(_initial(call, 5 + n, direction, (batch, hidden), x.dtype) for n in range(kind.states))

    def step(states: Any, elements: Any) -> Any:
        product, number = elements
        after = kind.cell(product, states, weights, settings)
        after = tuple(oc.cast(state, x.dtype) for state in after)
        if lengths is None:
            return after, after[0]
        is_inside = unsqueezed(oc.lt(number, lengths), [1])
        kept = tuple(oc.where(is_inside, new, old) for new, old in zip(after, states, strict=True))
        return kept, oc.where(is_inside, after[0], 0.0)

    last, outputs = oc.scan(step, init, (products, oc.iota(steps)), reverse=is_reverse)
    return outputs, *last


def _initial(call: NodeCall, position: int, direction: int, dims: Sequence[int], dtype: Any) -> oc.Tensor:
    """The initial state of one direction; 0 when it is omitted."""
    state = call.optional(position)
    if state is None:
        return full(0, dims, dtype)
    axis = 1 if call.attribute("layout", 0) else 0
    return reshaped(sliced(state, axis, direction, direction + 1), dims)

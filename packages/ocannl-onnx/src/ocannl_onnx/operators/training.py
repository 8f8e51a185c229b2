"""Steps of optimizers, of the domain `ai.onnx.preview.training`."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import reshaped
from ocannl_onnx.registry import operator

DOMAIN = "ai.onnx.preview.training"
Step = Callable[[NodeCall, oc.Tensor, oc.Tensor, list[oc.Tensor]], tuple[oc.Tensor, ...]]
"""The new parameter and states, from the rate, the count of steps, and the parameter, its gradient and states."""


def _regularized(call: NodeCall, x: oc.Tensor, gradient: oc.Tensor) -> oc.Tensor:
    coefficient: float = call.attribute("norm_coefficient", 0.0)
    return coefficient * x + gradient


def _adagrad(call: NodeCall, rate: oc.Tensor, count: oc.Tensor, values: list[oc.Tensor]) -> tuple[oc.Tensor, ...]:
    x, gradient, squares = values
    gradient = _regularized(call, x, gradient)
    squares = squares + gradient * gradient
    rate = rate / (1.0 + count * call.attribute("decay_factor", 0.0))
    return x - rate * gradient / (oc.sqrt(squares) + call.attribute("epsilon", 1e-6)), squares


def _adam(call: NodeCall, rate: oc.Tensor, count: oc.Tensor, values: list[oc.Tensor]) -> tuple[oc.Tensor, ...]:
    x, gradient, mean, squares = values
    alpha, beta = call.attribute("alpha", 0.9), call.attribute("beta", 0.999)
    gradient = _regularized(call, x, gradient)
    mean = alpha * mean + (1.0 - alpha) * gradient
    squares = beta * squares + (1.0 - beta) * gradient * gradient
    corrected = rate * oc.sqrt(1.0 - oc.pow(beta, count)) / (1.0 - oc.pow(alpha, count))
    rate = oc.where(count > 0, corrected, rate)
    x = x - rate * mean / (oc.sqrt(squares) + call.attribute("epsilon", 1e-6))
    return (1.0 - call.attribute("norm_coefficient_post", 0.0)) * x, mean, squares


def _momentum(call: NodeCall, rate: oc.Tensor, count: oc.Tensor, values: list[oc.Tensor]) -> tuple[oc.Tensor, ...]:
    x, gradient, velocity = values
    alpha, mode = call.attribute("alpha"), call.attribute("mode")
    call.require(mode in ("standard", "nesterov"), f"mode {mode!r}")
    gradient = _regularized(call, x, gradient)
    velocity = alpha * velocity + oc.where(count > 0, call.attribute("beta"), 1.0) * gradient
    return x - rate * (gradient + alpha * velocity if mode == "nesterov" else velocity), velocity


OPTIMIZERS: dict[str, tuple[str, int, Step]] = {
    "Adagrad": ("a step of oc.train.adagrad", 3, _adagrad),
    "Adam": ("a step of oc.train.adam", 4, _adam),
    "Momentum": ("a step of oc.train.sgd with momentum", 3, _momentum),
}
"""The spelling, the number of inputs for each parameter, and the step."""


def _optimizer(inputs: int, step: Step) -> Callable[[NodeCall], tuple[oc.Tensor, ...]]:
    def build(call: NodeCall) -> tuple[oc.Tensor, ...]:
        rate, count = (reshaped(call.tensor(n), ()) for n in range(2))
        tensors = [call.tensor(n) for n in range(2, len(call))]
        parameters, remainder = divmod(len(tensors), inputs)
        call.require(remainder == 0, f"{len(tensors)} parameters, gradients and states")
        count = oc.cast(count, rate.dtype)
        results = [step(call, rate, count, tensors[n::parameters]) for n in range(parameters)]
        return tuple(value for column in zip(*results, strict=True) for value in column)

    return build


for name, (spelling, inputs, step) in OPTIMIZERS.items():
    operator(name, domain=DOMAIN, spelling=spelling)(_optimizer(inputs, step))

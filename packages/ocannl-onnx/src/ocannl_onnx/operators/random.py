"""Random numbers. The numbers are those of ocannl, which differ from those of other runtimes for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import element_name, precision_of
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value

DIFFERENT = ("the numbers differ from those of other runtimes",)


def _key(call: NodeCall) -> str:
    """The stream of a node: by its output, and by the seed where it has one."""
    return f"onnx {call.node.outputs[0]} {call.attribute('seed', 0.0)}"


def _dtype(call: NodeCall, default: Any) -> Any:
    if "dtype" not in call.node.attributes:
        return default
    element_type = call.attribute("dtype")
    precision = precision_of(element_type)
    call.require(precision is not None, f"numbers of type {element_name(element_type)}")
    return precision


def _uniform(call: NodeCall, dims: Sequence[int], dtype: Any) -> oc.Tensor:
    low, high = call.attribute("low", 0.0), call.attribute("high", 1.0)
    return oc.uniform(low, high, key=_key(call), b=[], i=[], o=list(dims), dtype=dtype)


def _normal(call: NodeCall, dims: Sequence[int], dtype: Any) -> oc.Tensor:
    mean, scale = call.attribute("mean", 0.0), call.attribute("scale", 1.0)
    return oc.normal(mean, scale, key=_key(call), b=[], i=[], o=list(dims), dtype=dtype)


Draw = Callable[[NodeCall, Sequence[int], Any], oc.Tensor]
DISTRIBUTIONS: dict[str, tuple[str, Draw]] = {
    "RandomUniform": ("oc.uniform(low, high)", _uniform),
    "RandomNormal": ("oc.normal(mean, std)", _normal),
}


def _of_shape(draw: Draw) -> Callable[[NodeCall], oc.Tensor]:
    return lambda call: draw(call, call.attribute("shape"), _dtype(call, precision_of(onnx.TensorProto.FLOAT)))


def _like(draw: Draw) -> Callable[[NodeCall], oc.Tensor]:
    return lambda call: draw(call, call.shape(0), _dtype(call, call.dtype(0)))


for name, (spelling, draw) in DISTRIBUTIONS.items():
    operator(name, spelling=spelling, restrictions=DIFFERENT, folds=False)(_of_shape(draw))
    operator(f"{name}Like", spelling=spelling, restrictions=DIFFERENT, folds=False)(_like(draw))


@operator("Bernoulli", spelling="oc.bernoulli(p)", restrictions=DIFFERENT, folds=False)
def bernoulli(call: NodeCall) -> Value:
    return oc.cast(oc.bernoulli(call.tensor(0), key=_key(call)), _dtype(call, call.dtype(0)))


@operator("Multinomial", spelling="oc.categorical(logits, samples=)", restrictions=DIFFERENT, folds=False)
def multinomial(call: NodeCall) -> Value:
    logits = oc.einsum("b,c => b|c", call.tensor(0))
    classes = oc.categorical(logits, samples=call.attribute("sample_size", 1), key=_key(call))
    return oc.cast(oc.einsum("b|s => b,s", classes), _dtype(call, oc.int32))

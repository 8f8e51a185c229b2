"""Operators of the domain `com.microsoft`, into which ONNX Runtime and its tools fuse and quantize models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import concatenated, reduced, reshaped, sliced, transposed
from ocannl_onnx.operators.linear import matmul
from ocannl_onnx.operators.normalization import mean_of, normalized
from ocannl_onnx.operators.quantization import centered, dynamic_product, quantized
from ocannl_onnx.operators.recurrent import recurrent
from ocannl_onnx.operators.windows import conv
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value

DOMAIN = "com.microsoft"


def _called(call: NodeCall, name: str, values: Sequence[Value], version: int = 14) -> NodeCall:
    """The call of an operator of ONNX with the attributes of this one."""
    return NodeCall(replace(call.node, domain="", operator=name), version, values, call.importer)


# --- activations -------------------------------------------------------------------------------------------------

ACTIVATIONS: dict[str, tuple[str, Callable[[oc.Tensor, NodeCall], oc.Tensor]]] = {
    "Gelu": ('oc.gelu(x, approximate="none")', lambda x, call: oc.gelu(x, approximate="none")),
    "BiasGelu": (
        'oc.gelu(x + bias, approximate="none")',
        lambda x, call: oc.gelu(_plus(x, call.optional(1)), approximate="none"),
    ),
    "FastGelu": (
        'oc.gelu(x + bias, approximate="tanh")',
        lambda x, call: oc.gelu(_plus(x, call.optional(1)), approximate="tanh"),
    ),
    "QuickGelu": ("x * oc.sigmoid(alpha * x)", lambda x, call: x * oc.sigmoid(call.attribute("alpha", 1.702) * x)),
}


def _plus(x: oc.Tensor, y: oc.Tensor | None) -> oc.Tensor:
    return x if y is None else x + y


def _activation(function: Callable[[oc.Tensor, NodeCall], oc.Tensor]) -> Callable[[NodeCall], Value]:
    return lambda call: function(call.tensor(0), call)


for _name, (_spelling, _build) in ACTIVATIONS.items():
    operator(_name, domain=DOMAIN, spelling=_spelling)(_activation(_build))

FUSED_ACTIVATIONS: dict[str, Callable[[oc.Tensor, Sequence[float]], oc.Tensor]] = {
    "": lambda x, p: x,
    "Relu": lambda x, p: oc.relu(x),
    "Tanh": lambda x, p: oc.tanh(x),
    "Sigmoid": lambda x, p: oc.sigmoid(x),
    "LeakyRelu": lambda x, p: oc.where(x < 0, p[0] * x, x),
    "Clip": lambda x, p: oc.clip(x, p[0], p[1]),
    "HardSigmoid": lambda x, p: oc.clip(p[0] * x + p[1], 0.0, 1.0),
}


@operator("FusedConv", domain=DOMAIN, spelling="the activation of Conv plus z")
def fused_conv(call: NodeCall) -> Value:
    name = call.attribute("activation", "")
    call.require(name in FUSED_ACTIVATIONS, f"the activation {name!r}")
    y = _plus(conv(_called(call, "Conv", call.values[:3])), call.optional(3))
    return FUSED_ACTIVATIONS[name](y, call.attribute("activation_params", ()))


@operator("FusedMatMul", domain=DOMAIN, spelling="alpha * the product of transposed operands",
          restrictions=("transBatchA and transBatchB",))  # fmt: skip
def fused_matmul(call: NodeCall) -> Value:
    call.require(not call.attribute("transBatchA", 0) and not call.attribute("transBatchB", 0), "transposed batches")
    operands = [
        _last_two_exchanged(x) if call.attribute(name, 0) and len(x.dims) > 1 else x
        for x, name in ((call.tensor(0), "transA"), (call.tensor(1), "transB"))
    ]
    return matmul(*operands) * call.attribute("alpha", 1.0)


def _last_two_exchanged(x: oc.Tensor) -> oc.Tensor:
    rank = len(x.dims)
    return transposed(x, [*range(rank - 2), rank - 1, rank - 2])


# --- normalization -----------------------------------------------------------------------------------------------


@operator("SkipLayerNormalization", domain=DOMAIN, spelling="the LayerNormalization of x + skip + bias",
          restrictions=("the outputs of the mean and the inverse deviation",))  # fmt: skip
def skip_layer_normalization(call: NodeCall) -> tuple[Value, ...]:
    call.require(not call.uses(1) and not call.uses(2), "the statistics as outputs")
    total = _plus(call.tensor(0) + call.tensor(1), call.optional(4))
    y = normalized(total, [len(total.dims) - 1], call.attribute("epsilon", 1e-12))
    return _plus(y * call.tensor(2), call.optional(3)), None, None, total


@operator("SkipSimplifiedLayerNormalization", domain=DOMAIN, spelling="the RMSNormalization of x + skip + bias",
          restrictions=("the outputs of the mean and the inverse deviation",))  # fmt: skip
def skip_simplified_layer_normalization(call: NodeCall) -> tuple[Value, ...]:
    call.require(not call.uses(1) and not call.uses(2), "the statistics as outputs")
    total = _plus(call.tensor(0) + call.tensor(1), call.optional(3))
    return _rms(total, call.attribute("epsilon", 1e-12)) * call.tensor(2), None, None, total


@operator("SimplifiedLayerNormalization", spelling="x / oc.sqrt((x * x).mean(spec) + epsilon) * scale",
          restrictions=("axes other than the last", "the inverse deviation as an output"))  # fmt: skip
def simplified_layer_normalization(call: NodeCall) -> Value:
    """ONNX Runtime's RMSNormalization, in the standard domain."""
    call.require(not call.uses(1), "the inverse deviation as an output")
    call.require(call.axis(-1) == len(call.shape(0)) - 1, "axes other than the last")
    return _rms(call.tensor(0), call.attribute("epsilon", 1e-5)) * call.tensor(1)


def _rms(x: oc.Tensor, epsilon: float) -> oc.Tensor:
    return x / oc.sqrt(mean_of(x * x, [len(x.dims) - 1]) + epsilon)


# --- attention ---------------------------------------------------------------------------------------------------

MASKED_SCORE = -10000.0  # the default score of masked positions


@operator("MultiHeadAttention", domain=DOMAIN, spelling="oc.softmax(q @ k * scale + bias) @ v, of heads",
          restrictions=("packed keys and values", "caches", "masks of other ranks than 2"))  # fmt: skip
def multi_head_attention(call: NodeCall) -> Value:
    call.require(call.has(1) and call.has(2) and len(call.shape(1)) == len(call.shape(2)) == 3, "packed operands")
    call.require(not any(call.has(n) for n in range(6, len(call))) and not call.uses(1), "a cache")
    parts = [call.tensor(n) for n in range(3)]
    if (bias := call.optional(3)) is not None:
        ends = [0, *(sum(x.dims[-1] for x in parts[: n + 1]) for n in range(3))]
        parts = [x + sliced(bias, 0, ends[n], ends[n + 1]) for n, x in enumerate(parts)]
    return _attention(call, parts, call.optional(4), call.optional(5))


@operator("Attention", domain=DOMAIN, spelling="MultiHeadAttention of x @ weights + bias",
          restrictions=("caches", "masks of other ranks than 1 or 2", "rotary embedding"))  # fmt: skip
def attention(call: NodeCall) -> Value:
    call.require(not call.has(4) and not call.uses(1) and not call.attribute("do_rotary", 0), "a cache")
    joint = _plus(matmul(call.tensor(0), call.tensor(1)), call.optional(2))
    widths = call.attribute("qkv_hidden_sizes", None) or [joint.dims[-1] // 3] * 3
    parts = [sliced(joint, 2, sum(widths[:n]), sum(widths[: n + 1])) for n in range(3)]
    return _attention(call, parts, call.optional(3), call.optional(5))


def _attention(call: NodeCall, parts: Sequence[oc.Tensor], mask: oc.Tensor | None, bias: oc.Tensor | None) -> oc.Tensor:
    """Attention of queries, keys and values, `batch, step, head * width`. A mask is of keys, 0 where it is hidden, or
    the number of keys of each batch element."""
    heads = call.attribute("num_heads")
    call.require(heads > 0 and all(x.dims[-1] % heads == 0 for x in parts), f"{heads} heads")
    q, k, v = (reshaped(x, (*x.dims[:2], heads, x.dims[2] // heads)) for x in parts)
    scale = call.attribute("scale", 0.0) or 1 / math.sqrt(q.dims[-1])
    scores = oc.einsum("b,s,h,d; b,t,h,d => b,h,s,t", q, k) * scale
    masked = call.attribute("mask_filter_value", MASKED_SCORE)
    batch, steps = k.dims[:2]
    keys = oc.cast(oc.iota(steps), oc.int32)
    if mask is not None:
        call.require(mask.dims in ((batch,), (batch, steps)), f"a mask {mask.dims}")
        visible = keys < reshaped(mask, (batch, 1)) if len(mask.dims) == 1 else oc.ne(mask, 0)
        scores = scores + oc.where(reshaped(visible, (batch, 1, 1, steps)), 0.0, masked)
    if bias is not None:
        scores = scores + bias
    if call.attribute("unidirectional", 0):
        queries = reshaped(oc.cast(oc.iota(q.dims[1]), oc.int32), (q.dims[1], 1)) + (steps - q.dims[1])
        scores = oc.where(keys <= queries, scores, masked)
    result = oc.einsum("b,h,s,t; b,t,h,d => b,s,h,d", oc.softmax(scores, "a,b,c,d => a,b,c,"), v)
    return reshaped(result, (*result.dims[:2], parts[2].dims[-1]))


# --- quantization ------------------------------------------------------------------------------------------------


def _dequantized(x: oc.Tensor, scale: oc.Tensor, zero: oc.Tensor | None, dims: Sequence[int]) -> oc.Tensor:
    """Real numbers from integers; `dims` is the shape of scales and zero points beside x, unless they are numbers."""
    scale, *zeros = (
        reshaped(p, () if math.prod(p.dims) == 1 else dims) for p in (scale, zero) if p is not None
    )  # fmt: skip
    wide = oc.cast(x, oc.float32)
    return (wide - oc.cast(zeros[0], oc.float32) if zeros else wide) * scale


def _operand(call: NodeCall, position: int) -> oc.Tensor:
    """An operand with its scale and zero point, the two inputs after it."""
    return _dequantized(call.tensor(position), call.tensor(position + 1), call.optional(position + 2), ())


def _requantized(call: NodeCall, x: oc.Tensor, scale: int, dtype: Any) -> oc.Tensor:
    return quantized(x / reshaped(call.tensor(scale), ()), call.optional(scale + 1), dtype)


QLINEAR: dict[str, tuple[str, Callable[[oc.Tensor, oc.Tensor], oc.Tensor]]] = {
    "QLinearAdd": ("x + y", lambda x, y: x + y),
    "QLinearMul": ("x * y", lambda x, y: x * y),
}


def _qlinear(function: Callable[[oc.Tensor, oc.Tensor], oc.Tensor]) -> Callable[[NodeCall], Value]:
    return lambda call: _requantized(call, function(_operand(call, 0), _operand(call, 3)), 6, call.dtype(0))


for _name, (_spelling, _function) in QLINEAR.items():
    operator(_name, domain=DOMAIN, spelling=f"{_spelling}, dequantized before and quantized after")(_qlinear(_function))


@operator("QLinearSigmoid", domain=DOMAIN, spelling="oc.sigmoid(x), dequantized before and quantized after")
def qlinear_sigmoid(call: NodeCall) -> Value:
    return _requantized(call, oc.sigmoid(_operand(call, 0)), 3, call.dtype(0))


@operator("QLinearLeakyRelu", domain=DOMAIN, spelling="oc.where(x < 0, alpha * x, x), dequantized and quantized")
def qlinear_leaky_relu(call: NodeCall) -> Value:
    x = _operand(call, 0)
    return _requantized(call, oc.where(x < 0, call.attribute("alpha", 0.01) * x, x), 3, call.dtype(0))


@operator("QLinearGlobalAveragePool", domain=DOMAIN, spelling="the mean over spatial axes, dequantized and quantized")
def qlinear_global_average_pool(call: NodeCall) -> Value:
    x = _operand(call, 0)
    axes = range(1, len(x.dims) - 1) if call.attribute("channels_last", 0) else range(2, len(x.dims))
    return _requantized(call, reduced(x, axes, lambda x, spec: x.mean(spec), keep=True), 3, call.dtype(0))


@operator("QLinearConcat", domain=DOMAIN, spelling="oc.concat of dequantized tensors, quantized")
def qlinear_concat(call: NodeCall) -> Value:
    parts = [_operand(call, n) for n in range(2, len(call), 3)]
    axis = call.position(call.attribute("axis"), len(parts[0].dims))
    y = concatenated(parts, axis) / reshaped(call.tensor(0), ())
    return quantized(y, call.tensor(1), call.dtype(2))


@operator("MatMulIntegerToFloat", domain=DOMAIN, spelling="the product of dequantized operands, plus bias")
def matmul_integer_to_float(call: NodeCall) -> Value:
    operands = (centered(call.value(0), call.value(4), ()), _weights(call, 5))
    total = matmul(*(oc.cast(operand, oc.int32) for operand in operands))
    return _plus(oc.cast(total, oc.float32) * (reshaped(call.tensor(2), ()) * _scale(call, 3)), call.optional(6))


@operator("DynamicQuantizeMatMul", domain=DOMAIN, spelling="the product with x rounded to 256 values of its range")
def dynamic_quantize_matmul(call: NodeCall) -> Value:
    product = dynamic_product(matmul, call.tensor(0), _weights(call, 3), _scale(call, 2))
    return _plus(product, call.optional(4))


def _weights(call: NodeCall, zero: int) -> oc.Tensor:
    """The integers of the second operand less their zero point: one for all, or one for each column."""
    return centered(call.value(1), call.value(zero), _dims_of_columns(call, zero) if call.has(zero) else ())


def _scale(call: NodeCall, position: int) -> oc.Tensor:
    return reshaped(call.tensor(position), _dims_of_columns(call, position))


def _dims_of_columns(call: NodeCall, position: int) -> tuple[int, ...]:
    dims = call.shape(position)
    return () if math.prod(dims) == 1 else dims


@operator("DynamicQuantizeLSTM", domain=DOMAIN, spelling="LSTM of dequantized weights, with rounded operands")
def dynamic_quantize_lstm(call: NodeCall) -> Value:
    return recurrent(_called(call, "DynamicQuantizeLSTM", call.values))

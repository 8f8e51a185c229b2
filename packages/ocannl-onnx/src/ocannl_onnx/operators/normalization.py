"""Normalizations by statistics of batches, instances, layers, groups and windows of channels, and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import precision_of
from ocannl_onnx.layout import axis_names, full, padded, reduced, reshaped, row
from ocannl_onnx.operators.pooling import powers, rooted
from ocannl_onnx.operators.windows import per_channel
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value


def mean_of(x: oc.Tensor, axes: Sequence[int]) -> oc.Tensor:
    """The mean over axes, which stay with size 1."""
    return reduced(x, axes, lambda x, spec: x.mean(spec), keep=True)


def statistics(x: oc.Tensor, axes: Sequence[int]) -> tuple[oc.Tensor, oc.Tensor]:
    """The mean and the variance of the population over axes, which stay with size 1."""
    mean = mean_of(x, axes)
    difference = x - mean
    return mean, mean_of(difference * difference, axes)


def normalized(x: oc.Tensor, axes: Sequence[int], epsilon: float) -> oc.Tensor:
    mean, variance = statistics(x, axes)
    return (x - mean) / oc.sqrt(variance + epsilon)


def _channels(call: NodeCall, position: int, rank: int) -> oc.Tensor:
    """A vector of channels, in the shape by which it broadcasts to axis 1."""
    vector = call.tensor(position)
    return reshaped(vector, per_channel(vector.dims[0], rank))


def _stash_type(call: NodeCall, x: oc.Tensor) -> Any:
    """The type of the statistics; that of `x` where it is wider."""
    dtype = precision_of(call.attribute("stash_type", onnx.TensorProto.FLOAT))
    call.require(dtype is not None and dtype.is_float, "stash_type is no type of floating-point numbers")
    return x.dtype if str(x.dtype) == "float64" else dtype


@operator(
    "BatchNormalization",
    spelling="(x - mean) * (scale / oc.sqrt(variance + epsilon)) + bias",
    restrictions=("spatial=0", "before version 14: outputs of the training mode other than the first"),
)
def batch_normalization(call: NodeCall) -> Value | tuple[Value, ...]:
    x, rank = call.tensor(0), len(call.shape(0))
    call.require(call.version >= 9 or call.attribute("spatial", 1) == 1, "spatial=0")
    scale, bias = (_channels(call, n, rank) for n in (1, 2))
    epsilon = call.attribute("epsilon", 1e-5)
    if not _is_training(call):
        return _scaled(x, _channels(call, 3, rank), _channels(call, 4, rank), scale, bias, epsilon)
    batch_mean, batch_variance = statistics(x, [n for n in range(rank) if n != 1])
    y = _scaled(x, batch_mean, batch_variance, scale, bias, epsilon)
    momentum = call.attribute("momentum", 0.9)
    running = [
        call.tensor(n) * momentum + reshaped(new, call.shape(n)) * (1 - momentum)
        for n, new in ((3, batch_mean), (4, batch_variance))
    ]
    return (y, *running) if call.version >= 14 else y


def _scaled(
    x: oc.Tensor, mean: oc.Tensor, variance: oc.Tensor, scale: oc.Tensor, bias: oc.Tensor, epsilon: float
) -> oc.Tensor:
    return (x - mean) * (scale / oc.sqrt(variance + epsilon)) + bias


def _is_training(call: NodeCall) -> bool:
    """Whether the statistics are those of the batch."""
    if call.version >= 14:
        return bool(call.attribute("training_mode", 0))
    call.require(not any(call.uses(n) for n in range(1, 5)), "outputs of the training mode")
    return call.version < 7 and not call.attribute("is_test", 0)


@operator("InstanceNormalization", spelling="(x - mean) / oc.sqrt(variance + epsilon) * scale + bias")
def instance_normalization(call: NodeCall) -> Value:
    x, rank = call.tensor(0), len(call.shape(0))
    y = normalized(x, range(2, rank), call.attribute("epsilon", 1e-5))
    return y * _channels(call, 1, rank) + _channels(call, 2, rank)


@operator("LayerNormalization", spelling="(x - mean) / oc.sqrt(variance + epsilon) * scale + bias")
def layer_normalization(call: NodeCall) -> tuple[Value, ...]:
    x = call.tensor(0)
    dtype = _stash_type(call, x)
    axes = range(call.axis(-1), len(x.dims))
    wide = oc.cast(x, dtype)
    mean, variance = statistics(wide, axes)
    inverse = 1.0 / oc.sqrt(variance + call.attribute("epsilon", 1e-5))
    y = oc.cast((wide - mean) * inverse, x.dtype) * call.tensor(1)
    declared: Any = precision_of(call.attribute("stash_type", onnx.TensorProto.FLOAT))
    y = y + call.tensor(2) if call.has(2) else y
    return y, oc.cast(mean, declared), oc.cast(inverse, declared)


@operator("RMSNormalization", spelling="x / oc.sqrt((x * x).mean(spec) + epsilon) * scale")
def rms_normalization(call: NodeCall) -> Value:
    x = call.tensor(0)
    wide = oc.cast(x, _stash_type(call, x))
    mean = mean_of(wide * wide, range(call.axis(-1), len(x.dims)))
    return oc.cast(wide / oc.sqrt(mean + call.attribute("epsilon", 1e-5)), x.dtype) * call.tensor(1)


@operator(
    "GroupNormalization",
    spelling="(x - mean) / oc.sqrt(variance + epsilon) * scale + bias, in groups",
    restrictions=("version 18, which ONNX deprecated",),
)
def group_normalization(call: NodeCall) -> Value:
    x, groups = call.tensor(0), call.attribute("num_groups")
    n, channels, *spatial = x.dims
    call.require(groups > 0 and channels % groups == 0, f"{groups} groups of {channels} channels")
    call.require(call.version >= 21, "version 18, which has scales of groups")
    wide = oc.cast(x, _stash_type(call, x))
    split = reshaped(wide, (n, groups, channels // groups, *spatial))
    y = oc.cast(normalized(split, range(2, len(split.dims)), call.attribute("epsilon", 1e-5)), x.dtype)
    return reshaped(y, x.dims) * _channels(call, 1, len(x.dims)) + _channels(call, 2, len(x.dims))


@operator("LRN", spelling='x / (bias + alpha / size * (x * x).sum("n,c<+k,h,w => n,c,h,w")) ** beta')
def lrn(call: NodeCall) -> Value:
    x, size = call.tensor(0), call.attribute("size")
    alpha, beta, bias = call.attribute("alpha", 1e-4), call.attribute("beta", 0.75), call.attribute("bias", 1.0)
    squares = padded(x * x, 1, (size - 1) // 2, size // 2)
    names = axis_names(len(x.dims))
    total = oc.einsum(f"{row([names[0], f'{names[1]}<+k', *names[2:]])} => {row(names)}", squares, k=size)
    return x / (bias + (alpha / size) * total) ** beta


@operator("LpNormalization", spelling="oc.where(norm == 0, 0, x / norm)")
def lp_normalization(call: NodeCall) -> Value:
    x, p = call.tensor(0), call.attribute("p", 2)
    call.require(p in (1, 2), f"p={p}")
    norm = rooted(reduced(powers(x, p), [call.axis(-1)], lambda x, spec: x.sum(spec), keep=True), p)
    zero = oc.eq(norm, 0)
    return oc.where(zero, 0.0, x / oc.where(zero, 1.0, norm))


@operator("MeanVarianceNormalization", spelling="(x - mean) / (oc.sqrt(variance) + 1e-9)")
def mean_variance_normalization(call: NodeCall) -> Value:
    x = call.tensor(0)
    axes = [call.position(axis, len(x.dims)) for axis in call.attribute("axes", (0, 2, 3))]
    mean, variance = statistics(x, axes)
    return (x - mean) / (oc.sqrt(variance) + 1e-9)


@operator(
    "Dropout", spelling="x",
    restrictions=("the training mode with a ratio above 0", "before version 12: the mask, which ONNX does not define"),
)  # fmt: skip
def dropout(call: NodeCall) -> tuple[Value, Value]:
    x = call.tensor(0)
    if call.version >= 12:
        ratio = float(call.constant(1).reshape(())) if call.has(1) else 0.5
        training = call.has(2) and bool(call.constant(2).reshape(()))
    else:
        ratio, training = call.attribute("ratio", 0.5), call.version < 7 and not call.attribute("is_test", 0)
    call.require(call.version >= 12 or not call.uses(1), "the mask before version 12")
    call.require(not training or ratio == 0, f"the training mode with ratio {ratio}")
    return x, full(True, x.dims, oc.bool)

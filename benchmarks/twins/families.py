"""Families of programs, each at several sizes: in ocannl, and as functions of a library, `by_torch` or `by_jax`.

Axes of twins are those of ocannl; convolutions have channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import nn
from twins import models
from twins.models import Weights

Array = Any
Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Function:
    """A function of arrays in ocannl and in its twin, whose values or gradients are computed.

    `ours` receives tensors, of which `batch_axes` says how many axes are batch axes, by name; the others are output
    axes. `learned` names the arrays whose gradients are computed, if any.
    """

    arrays: Arrays
    ours: Callable[..., Any]
    twin: Callable[..., Any]
    batch_axes: Mapping[str, int]
    learned: Sequence[str] = ()


@dataclass(frozen=True)
class Model:
    """A block of ocannl and its twin, a function of a library, weights by path and inputs.

    With a target, a training step is measured: `loss` is the name of a function of its output and the target; otherwise
    the output for given weights.
    """

    block: Any
    inputs: Arrays
    twin: Callable[..., Any]
    batch_axes: Mapping[str, int]
    target: np.ndarray[Any, Any] | None = None
    loss: str = "squared_error"


@dataclass(frozen=True)
class Family:
    """`build` makes a program of a generator of random numbers and a size."""

    build: Callable[..., Function | Model]
    sizes: Sequence[tuple[int, ...]]


def normal(rng: np.random.Generator, *dims: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=dims).astype("float32")


def integers(rng: np.random.Generator, limit: int, *dims: int) -> np.ndarray[Any, Any]:
    return rng.integers(0, limit, dims).astype("int32")


# --- functions of one or more arrays ----------------------------------------------------------------------------------

SQUARES = ((512, 512), (2048, 2048), (4096, 4096), (128, 65536), (65536, 128))
BOXES = ((64, 64, 64), (16, 512, 512), (512, 16, 512), (256, 256, 256))


def of_arrays(
    ours: Callable[..., Any], twin: Callable[..., Any], count: int, rng: np.random.Generator, *dims: int
) -> Function:
    """Values of a function of so many arrays of equal dimensions."""
    arrays = {name: normal(rng, *dims) for name in "xyz"[:count]}
    return Function(arrays, ours, twin, {})


def family(
    ours: Callable[..., Any], twin: Callable[..., Any], sizes: Sequence[tuple[int, ...]], count: int = 1
) -> Family:
    return Family(partial(of_arrays, ours, twin, count), sizes)


# --- normalizations and losses: gradients by all arrays ---------------------------------------------------------------

ROWS = ((64, 768), (4096, 256), (4096, 1024), (512, 8192))


def of_rows(
    ours: Callable[..., Any], twin: Callable[..., Any], names: str, rng: np.random.Generator, rows: int, width: int
) -> Function:
    """Gradients of a function of rows, by which the result is weighted, and of vectors."""
    arrays = {"x": normal(rng, rows, width), **{name: normal(rng, width) for name in names}}
    weights = normal(rng, rows, width)

    def weighted(g: oc.Tensor, **xs: oc.Tensor) -> oc.Tensor:
        return (ours(**xs) * g).sum()

    def weighted_twin(lib: Any, g: Array, **xs: Array) -> Array:
        return (twin(lib, **xs) * g).sum()

    return Function({**arrays, "g": weights}, weighted, weighted_twin, {"x": 1, "g": 1}, list(arrays))


def rms_norm(lib: Any, x: Array, w: Array) -> Array:
    return x / lib.sqrt((x * x).mean(-1)[:, None] + 1e-6) * w


def our_layer_norm(x: oc.Tensor, w: oc.Tensor, b: oc.Tensor) -> oc.Tensor:
    centered = x - x.mean("...|i => ...|0")
    return centered * oc.recip_sqrt((centered * centered).mean("...|i => ...|0") + 1e-5) * w + b


def our_rms_norm(x: oc.Tensor, w: oc.Tensor) -> oc.Tensor:
    return x * oc.recip_sqrt((x * x).mean("...|i => ...|0") + 1e-6) * w


def of_classes(rng: np.random.Generator, rows: int, width: int, classes: int) -> Function:
    """Gradients of a cross entropy over classes by a table and features."""
    arrays = {"x": normal(rng, rows, width), "w": normal(rng, classes, width) / np.float32(width**0.5)}

    def ours(x: oc.Tensor, w: oc.Tensor, t: oc.Tensor) -> oc.Tensor:
        return oc.cross_entropy(oc.einsum("...|c; v, c => ...|v", x, w), t).mean()

    def twin(lib: Any, x: Array, w: Array, t: Array) -> Array:
        return lib.cross_entropy(x @ w.T, t)

    return Function({**arrays, "t": integers(rng, classes, rows)}, ours, twin, {"x": 1, "t": 1}, list(arrays))


def of_table(rng: np.random.Generator, rows: int, width: int, ids: int) -> Function:
    """Gradient of a table of which few rows are read."""
    arrays = {"w": normal(rng, rows, width), "ids": integers(rng, rows, ids), "g": normal(rng, ids, width)}

    def ours(w: oc.Tensor, ids: oc.Tensor, g: oc.Tensor) -> oc.Tensor:
        return (w.take(ids) * g).sum()

    def twin(lib: Any, w: Array, ids: Array, g: Array) -> Array:
        return (lib.embedding(ids, w) * g).sum()

    return Function(arrays, ours, twin, {"ids": 1, "g": 1}, ["w"])


def of_convolution(
    rng: np.random.Generator, batch: int, side: int, channels: int, dilation: int = 1, groups: int = 1
) -> Function:
    """Gradients of a padded convolution of 3x3 with as many output channels."""
    group = channels // groups
    kernel = normal(rng, 3, 3, group, channels) / np.float32(3 * group**0.5)
    image, weights = (normal(rng, batch, side, side, channels) for _ in range(2))

    def ours(x: oc.Tensor, w: oc.Tensor, g: oc.Tensor) -> oc.Tensor:
        settings = {"padding": dilation, "dilation": dilation}
        if groups == channels:
            return (oc.depthwise_conv2d(x, oc.einsum("hwic => hwc", w), **settings) * g).sum()
        return (oc.conv2d(x, w, groups=groups, **settings) * g).sum()

    def twin(lib: Any, x: Array, w: Array, g: Array) -> Array:
        return (lib.convolution(x, w, dilation=dilation, groups=groups) * g).sum()

    return Function({"x": image, "w": kernel, "g": weights}, ours, twin, {"x": 1, "g": 1}, ["x", "w"])


# --- models -----------------------------------------------------------------------------------------------------------


def of_perceptron(rng: np.random.Generator, batch: int, *widths: int) -> Model:
    block = nn.mlp(widths=widths[1:], label="mlp")
    return Model(
        block, {"x": normal(rng, batch, widths[0])}, lambda lib, w, x: models.mlp(lib, w, "", x), {"x": 1},
        normal(rng, batch, widths[-1]),
    )  # fmt: skip


@oc.op
def basic_block(x: oc.Tensor, *, channels: int) -> oc.Tensor:
    y = x
    for activation in (oc.relu, lambda y: y):
        y = activation(nn.batch_norm(nn.conv2d(y, channels=channels, window=3, padding=1, bias=False)))
    return oc.relu(x + y)


def basic_block_twin(lib: Any, w: Weights, x: Array) -> Array:
    y = lib.relu(lib.batch_norm(lib.conv(x, w["conv2d.w"], None, 1, 1), w, "batch_norm.", True))
    y = lib.batch_norm(lib.conv(y, w["conv2d_2.w"], None, 1, 1), w, "batch_norm_2.", True)
    return lib.relu(x + y)


@oc.op
def encoder_decoder(x: oc.Tensor, *, channels: int) -> oc.Tensor:
    """A level of a U-Net: half the resolution between two convolutions, and a connection around it."""
    high = oc.relu(nn.conv2d(x, channels=channels, window=3, padding=1))
    low = oc.relu(nn.conv2d(oc.avg_pool2d(high, 2), channels=2 * channels, window=3, padding=1))
    joined = oc.concat("...|h, w, a; ...|h, w, b => ...|h, w, a^b", high, oc.interpolate(low, scale=2))
    return nn.conv2d(joined, channels=channels, window=3, padding=1)


def encoder_decoder_twin(lib: Any, w: Weights, x: Array) -> Array:
    def conv(x: Array, name: str) -> Array:
        return lib.conv(x, w[f"{name}.w"], w[f"{name}.b"], 1, 1)

    high = lib.relu(conv(x, "conv2d"))
    low = lib.relu(conv(lib.avg_pool(high), "conv2d_2"))
    return conv(lib.concatenate([high, lib.upsample(low)], 3), "conv2d_3")


def of_images(
    block: Any, twin: Callable[..., Any], rng: np.random.Generator, batch: int, side: int, channels: int
) -> Model:
    dims = (batch, side, side, channels)
    return Model(block(channels=channels, label="block"), {"x": normal(rng, *dims)}, twin, {"x": 1}, normal(rng, *dims))


def of_sequences(cell: str, rng: np.random.Generator, batch: int, length: int, width: int) -> Model:
    """A recurrent layer; the target is one of all its states."""
    gates = {"gru": ("w_x", "w_h", "b_x", "b_h"), "lstm": ("w_x", "w_h", "b")}[cell]

    def twin(lib: Any, w: Weights, x: Array) -> Array:
        return getattr(lib, cell)(x, None, *(w[f"cell.{name}"] for name in gates))[0]

    block = getattr(nn, cell)(width=width, label=cell)
    dims = (batch, length, width)
    return Model(block, {"x": normal(rng, *dims)}, twin, {"x": 2}, normal(rng, *dims))


@oc.op
def sequence_encoder(x: oc.Tensor, *, layers: int, heads: int) -> oc.Tensor:
    width = x.dims[-1]
    return nn.encoder(x, layers=layers, heads=heads, inner=4 * width, pre_norm=True, activation=oc.gelu)


def of_encoder(rng: np.random.Generator, length: int, width: int, layers: int) -> Model:
    """Inference for one sequence."""
    heads = width // 64
    block = sequence_encoder(layers=layers, heads=heads, label="model")

    def twin(lib: Any, w: Weights, x: Array) -> Array:
        return models.encoder(lib, w, "encoder", x, heads=heads, causal=False, approximate=True, eps=1e-5)

    return Model(block, {"x": normal(rng, 1, length, width)}, twin, {"x": 2})


def of_gpt(
    is_trained: bool, rng: np.random.Generator, batch: int, length: int, width: int, layers: int, vocabulary: int
) -> Model:
    heads = width // 64
    block = nn.gpt(vocabulary=vocabulary, length=length, width=width, layers=layers, heads=heads, label="gpt")

    def twin(lib: Any, w: Weights, x: Array) -> Array:
        x = lib.embedding(x, w["token.table"]) + w["position.table"]
        x = models.encoder(lib, w, "decoder", x, heads=heads, causal=True, approximate=True, eps=1e-5)
        return lib.linear(x, w["token.table"], None)

    tokens, target = (integers(rng, vocabulary, batch, length) for _ in range(2))
    return Model(block, {"x": tokens}, twin, {"x": 2}, target if is_trained else None, "cross_entropy")


def gelu_chain(x: oc.Tensor, y: oc.Tensor, z: oc.Tensor) -> oc.Tensor:
    return oc.gelu(x) * y + z


FAMILIES: Mapping[str, Family] = {
    "cumsum of rows": family(lambda x: oc.cumsum(x, "ij => i"), lambda lib, x: lib.cumsum(x, 1), SQUARES),
    "cumsum of columns": family(lambda x: oc.cumsum(x, "ij => j"), lambda lib, x: lib.cumsum(x, 0), SQUARES),
    "sum of rows": family(lambda x: x.sum("ij => i"), lambda lib, x: x.sum(1), SQUARES),
    "sum of columns": family(lambda x: x.sum("ij => j"), lambda lib, x: x.sum(0), SQUARES),
    "sum of a middle axis": family(lambda x: x.sum("ijk => ik"), lambda lib, x: x.sum(1), BOXES),
    "logsumexp of rows": family(lambda x: oc.logsumexp(x, "ij => i"), lambda lib, x: lib.logsumexp(x), SQUARES),
    "argmax of rows": family(lambda x: oc.argmax(x, "ij => i"), lambda lib, x: lib.argmax(x, 1), SQUARES),
    "argmin of columns": family(lambda x: oc.argmin(x, "ij => j"), lambda lib, x: lib.argmin(x, 0), SQUARES),
    "topk": family(lambda x: oc.topk(x, 8, "ij => i")[0], lambda lib, x: lib.topk(x, 8), SQUARES),
    "transpose": family(lambda x: oc.einsum("ij => ji", x), lambda lib, x: lib.transposed(x, (1, 0)), SQUARES),
    "transpose of last axes": family(
        lambda x: oc.einsum("ijk => ikj", x), lambda lib, x: lib.transposed(x, (0, 2, 1)), BOXES
    ),
    "concatenation of rows": family(
        lambda x, y: oc.concat("i, c; j, c => i^j, c", x, y), lambda lib, x, y: lib.concatenate([x, y], 0), SQUARES, 2
    ),
    "concatenation of columns": family(
        lambda x, y: oc.concat("c, i; c, j => c, i^j", x, y), lambda lib, x, y: lib.concatenate([x, y], 1), SQUARES, 2
    ),
    "gelu(x) * y + z": family(gelu_chain, lambda lib, x, y, z: lib.gelu(x, True) * y + z, SQUARES, 3),
    "layer norm": Family(
        partial(of_rows, our_layer_norm, lambda lib, x, w, b: lib.layer_norm(x, w, b, 1e-5), "wb"), ROWS
    ),
    "RMS norm": Family(partial(of_rows, our_rms_norm, rms_norm, "w"), ROWS),
    "softmax": Family(partial(of_rows, lambda x: oc.softmax(x), lambda lib, x: lib.softmax(x), ""), ROWS),
    "cross entropy": Family(of_classes, ((256, 64, 1000), (256, 128, 10_000), (128, 64, 50_000))),
    "table gradient": Family(of_table, ((1000, 64, 4096), (50_000, 128, 4096), (200_000, 32, 1024))),
    "convolution": Family(of_convolution, ((8, 14, 128), (8, 28, 64), (4, 56, 32))),
    "dilated convolution": Family(partial(of_convolution, dilation=2), ((8, 14, 128), (8, 28, 64), (4, 56, 32))),
    "grouped convolution": Family(partial(of_convolution, groups=4), ((8, 14, 128), (8, 28, 64), (4, 56, 32))),
    "depthwise convolution": Family(
        lambda rng, batch, side, channels: of_convolution(rng, batch, side, channels, groups=channels),
        ((8, 14, 256), (8, 28, 128), (8, 56, 64)),
    ),
    "perceptron step": Family(
        of_perceptron, ((64, 784, 128, 64, 10), (128, 512, 1024, 1024, 100), (256, 256, 256, 256))
    ),
    "ResNet block step": Family(
        partial(of_images, basic_block, basic_block_twin), ((32, 16, 32), (8, 32, 64), (16, 8, 128))
    ),
    "U-Net block step": Family(
        partial(of_images, encoder_decoder, encoder_decoder_twin), ((16, 16, 32), (4, 64, 16), (8, 32, 32))
    ),
    "GRU step": Family(partial(of_sequences, "gru"), ((16, 32, 64), (32, 64, 128), (8, 128, 256))),
    "LSTM step": Family(partial(of_sequences, "lstm"), ((16, 32, 64), (32, 64, 128), (8, 128, 256))),
    "encoder": Family(of_encoder, ((32, 384, 2), (128, 384, 6), (256, 768, 2))),
    "decoder step": Family(
        partial(of_gpt, True), ((16, 64, 64, 2, 65), (8, 128, 128, 4, 1000), (4, 256, 256, 2, 5000))
    ),
    "GPT-2": Family(
        partial(of_gpt, False), ((1, 128, 768, 2, 50_257), (4, 64, 768, 4, 50_257), (1, 128, 768, 12, 50_257))
    ),
    "GPT-2 step": Family(
        partial(of_gpt, True), ((1, 64, 768, 2, 50_257), (2, 128, 768, 4, 50_257), (1, 128, 768, 12, 50_257))
    ),
}

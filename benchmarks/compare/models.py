"""The workloads as a user of ocannl writes them: a loss and its update, or an expression, with what is to be fed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ocannl as oc
from compare.workloads import TRAINING, Array, Workload
from ocannl import train


class Model(NamedTuple):
    """What is compiled, the arrays that it is given, and what it is asked for. Inputs may change from call to call."""

    code: Any
    feeds: dict[oc.Tensor, Array]
    results: tuple[Any, ...]


# --- training steps: parameters start as the arrays of the workload --------------------------------------------------


def weight(label: str, array: Array, outputs: Sequence[int] = (), inputs: Sequence[int] = ()) -> oc.Tensor:
    """A linear map of an array `[inputs, outputs]`; either of them may be several axes."""
    outputs, inputs = outputs or array.shape[1:], inputs or array.shape[:1]
    return oc.param(label, array.T.reshape(*outputs, *inputs), i=inputs)


def perceptron(x: oc.Tensor, params: Sequence[Array]) -> oc.Tensor:
    layers = list(zip(params[::2], params[1::2], strict=True))
    for n, (w, b) in enumerate(layers, 1):
        x = weight(f"w{n}", w) @ x + oc.param(f"b{n}", b)
        x = oc.relu(x) if n < len(layers) else x
    return x


def mlp(w: Workload) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    batch, features = w["x"].shape
    x = oc.placeholder("x", b=[batch], o=[features], dtype=w["x"].dtype)
    y = oc.placeholder("y", b=[batch], o=[], dtype=oc.int32)
    return oc.cross_entropy(perceptron(x, w["params"]), y).mean(), x, y


def tiny(w: Workload) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    batch = len(w["x"])
    x, y = oc.placeholder("x", b=[batch], o=[2]), oc.placeholder("y", b=[batch], o=[1])
    hinge = oc.relu(1 - y * perceptron(x, w["params"])).mean()
    return hinge + w["alpha"] * sum((p * p).sum() for p in hinge.params.values()), x, y


def lenet(w: Workload) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    batch = len(w["x"])
    x = oc.placeholder("x", b=[batch], o=[28, 28, 1], dtype=w["x"].dtype)
    y = oc.placeholder("y", b=[batch], o=[], dtype=oc.int32)
    k1, c1, k2, c2, w3, b3, *remaining = w["params"]
    h = oc.conv2d(x, oc.param("k1", k1.transpose(2, 3, 1, 0)), padding="same") + oc.param("c1", c1)
    h = oc.max_pool2d(oc.relu(h), window=2)
    h = oc.conv2d(h, oc.param("k2", k2.transpose(2, 3, 1, 0))) + oc.param("c2", c2)
    h = oc.max_pool2d(oc.relu(h), window=2)
    w3 = w3.reshape(16, 5, 5, 120).transpose(1, 2, 0, 3).reshape(400, 120)  # channels last
    h = oc.relu(weight("w3", w3, inputs=[5, 5, 16]) @ h + oc.param("b3", b3))
    w4, b4, w5, b5 = remaining
    h = oc.relu(weight("w4", w4) @ h + oc.param("b4", b4))
    return oc.cross_entropy(weight("w5", w5) @ h + oc.param("b5", b5), y).mean(), x, y


def normed(x: oc.Tensor, gain: oc.Tensor, bias: oc.Tensor, eps: float = 1e-5) -> oc.Tensor:
    centered = x - x.mean("...|d => ...|0")
    scale = oc.recip_sqrt((centered * centered).mean("...|d => ...|0") + eps)
    return centered * scale * gain + bias


def attention(x: oc.Tensor, qkv: Array, bias: Array, out: Array, end: Array, heads: int) -> oc.Tensor:
    """Causal, over the last batch axis."""
    split = [heads, len(qkv) // heads]
    parts = zip("qkv", np.split(qkv, 3, 1), np.split(bias, 3), strict=True)
    q, k, v = (weight(n, w, split) @ x + oc.param(f"{n}_bias", b.reshape(split)) for n, w, b in parts)
    scores = oc.einsum("...s|hd; ...t|hd => ...|hst", q, k) * split[1] ** -0.5
    past = oc.einsum("s; t => st", oc.iota(x.dims[1]), oc.iota(x.dims[1]), combine="ge")
    weights = oc.softmax(oc.where(past, scores, -math.inf), "...|hst => ...|hs")
    mixed = oc.einsum("...|hst; ...t|hd => ...s|hd", weights, v)
    return weight("out", out, inputs=split) @ mixed + oc.param("out_bias", end)


def scaling(arrays: Sequence[Array]) -> list[oc.Tensor]:
    return [oc.param(label, array) for label, array in zip(("gain", "bias"), arrays, strict=True)]


def feed_forward(x: oc.Tensor, wide: Array, wide_bias: Array, back: Array, back_bias: Array) -> oc.Tensor:
    inner = oc.gelu(weight("wide", wide) @ x + oc.param("wide_bias", wide_bias))
    return weight("back", back) @ inner + oc.param("back_bias", back_bias)


def decoder(w: Workload) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    x, y = (oc.placeholder(name, b=[w["B"], w["T"]], o=[], dtype=oc.int32) for name in "xy")
    table, position, *remaining = w["params"]
    h = oc.param("table", table).take(x) + oc.param("position", position, b=[w["T"]])
    for n in range(w["L"]):
        layer = remaining[12 * n : 12 * (n + 1)]
        h = h + attention(normed(h, *scaling(layer[0:2])), *layer[2:6], heads=w["H"])
        h = h + feed_forward(normed(h, *scaling(layer[6:8])), *layer[8:12])
    *last, scores = remaining[12 * w["L"] :]
    return oc.cross_entropy(weight("scores", scores) @ normed(h, *scaling(last)), y).mean(), x, y


def step(w: Workload) -> Model:
    """A whole training step: forward, backward, update."""
    loss, x, y = {"mlp": mlp, "tiny": tiny, "cnn": lenet, "gpt": decoder}[w["kind"]](w)
    if w["kind"] == "gpt":
        update = train.adam(loss, w["lr"], betas=(w["b1"], w["b2"]), eps=w["eps"])
    else:
        update = train.sgd(loss, w["lr"], momentum=w.get("mom", 0.0))
    feeds = {t: w[name].reshape(t.dims) for name, t in (("x", x), ("y", y))}
    return Model(oc.seq(train.grad_update(loss), update), feeds, (loss,))


# --- expressions ------------------------------------------------------------------------------------------------------


def constants(w: Workload, names: str) -> list[oc.Tensor]:
    return [oc.placeholder(name, o=w[name].shape, dtype=w[name].dtype) for name in names]


def product(w: Workload) -> Model:
    a, b = constants(w, "ab")
    spec = w.get("eq", "mk,kn->mn").replace(",", ";").replace("->", "=>")
    y = oc.einsum(spec, a, b)
    return Model(y.forward, {a: w["a"], b: w["b"]}, (y,))


def chained(x: oc.Tensor, w: Workload) -> oc.Tensor:
    return oc.tanh(x * w["a"] + w["b"]) * oc.sigmoid(x) + oc.relu(x)


def chain(w: Workload) -> Model:
    (x,) = constants(w, "x")
    y = chained(x, w)
    return Model(y.forward, {x: w["x"]}, (y,))


def chain_in_place(w: Workload) -> Model:
    (x,) = constants(w, "x")
    with oc.cd("chain") as code:
        x[...] = chained(x, w)
    return Model(code, {x: w["x"]}, (x,))


def big_sum(w: Workload) -> Model:
    (x,) = constants(w, "x")
    y = x.sum()
    return Model(y.forward, {x: w["x"]}, (y,))


def with_gradients(y: oc.Tensor, w: Workload, *inputs: oc.Tensor) -> Model:
    """Forward, and backward from the gradient `g`; what has a gradient is a parameter."""
    g = oc.placeholder("g", b=[len(w["g"])], o=[w["g"].shape[1]])
    with oc.cd("seed") as seed:
        y.grad[...] = g
    feeds = {t: w[t.label] for t in (*inputs, g)}
    return Model(oc.seq(y.forward, y.zero_grads, seed, y.backprop), feeds, (y, *(t.grad for t in inputs)))


def rows(w: Workload) -> oc.Tensor:
    return oc.param("x", 0.0, b=[len(w["x"])], o=[w["x"].shape[1]])


def layer_norm(w: Workload) -> Model:
    x, gain, bias = rows(w), oc.param("w", 0.0), oc.param("b", 0.0)
    return with_gradients(normed(x, gain, bias, w["eps"]), w, x, gain, bias)


def causal(w: Workload) -> Model:
    """Attention alone, over arrays `[batch, head, place, feature]`."""
    q, k, v = constants(w, "qkv")
    scores = oc.einsum("bhsd; bhtd => bhst", q, k) * w["q"].shape[3] ** -0.5
    past = oc.einsum("s; t => st", oc.iota(w["q"].shape[2]), oc.iota(w["q"].shape[2]), combine="ge")
    y = oc.einsum("bhst; bhtd => bhsd", oc.softmax(oc.where(past, scores, -math.inf), "...|bhst => ...|bhs"), v)
    return Model(y.forward, {q: w["q"], k: w["k"], v: w["v"]}, (y,))


def softmax(w: Workload) -> Model:
    x = rows(w)
    return with_gradients(oc.softmax(x), w, x)


def nothing(w: Workload) -> Model:
    (x,) = constants(w, "x")
    with oc.cd("nothing") as code:
        x += 1
    return Model(code, {x: w["x"]}, (x,))


KINDS: dict[str, Callable[[Workload], Model]] = {
    **dict.fromkeys(TRAINING, step),
    "attention": causal,
    "gemm": product,
    "einsum": product,
    "chain": chain,
    "chain_inplace": chain_in_place,
    "bigsum": big_sum,
    "layernorm": layer_norm,
    "softmax": softmax,
    "noop": nothing,
}


def model(w: Workload) -> Model:
    return KINDS[w["kind"]](w)

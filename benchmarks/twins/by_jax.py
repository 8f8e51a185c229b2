"""The functions of `twins.models` and training in JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from twins.objectives import Training

Array = jax.Array

tanh, sigmoid, exp, sqrt, relu = jnp.tanh, jax.nn.sigmoid, jnp.exp, jnp.sqrt, jax.nn.relu
concatenate, broadcast, stop_gradient = jnp.concatenate, jnp.broadcast_to, lax.stop_gradient
cumsum, argmax, argmin, transposed, softmax = jnp.cumsum, jnp.argmax, jnp.argmin, jnp.transpose, jax.nn.softmax
logsumexp = partial(jax.nn.logsumexp, axis=-1)


def topk(x: Array, k: int) -> Array:
    return lax.top_k(x, k)[0]


def linear(x: Array, w: Array, b: Array | None) -> Array:
    y = x @ w.reshape(len(w), -1).T
    return y if b is None else y + b


def embedding(tokens: Array, table: Array) -> Array:
    return table[tokens]


def gelu(x: Array, approximate: bool) -> Array:
    return jax.nn.gelu(x, approximate)


def pad(x: Array, before: int, after: int) -> Array:
    return jnp.pad(x, ((0, 0), (before, after), (0, 0)))


def layer_norm(x: Array, gain: Array, b: Array, eps: float) -> Array:
    return gain * (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + eps) + b


def attention(q: Array, k: Array, v: Array, causal: bool) -> Array:
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(1, 2)


def gru(x: Array, start: Array | None, w_x: Array, w_h: Array, b_x: Array, b_h: Array) -> tuple[Array, Array]:
    """The states at all positions, and the last one."""
    h = jnp.zeros((len(x), w_h.shape[1]), x.dtype) if start is None else start

    def cell(h: Array, of_x: Array) -> tuple[Array, Array]:
        (r_x, z_x, n_x), (r_h, z_h, n_h) = (jnp.split(gates, 3, 1) for gates in (of_x, h @ w_h.T + b_h))
        n = tanh(n_x + sigmoid(r_x + r_h) * n_h)
        z = sigmoid(z_x + z_h)
        h = (1 - z) * n + z * h
        return h, h

    last, states = lax.scan(cell, h, (x @ w_x.T + b_x).swapaxes(0, 1))
    return states.swapaxes(0, 1), last


def lstm(x: Array, start: None, w_x: Array, w_h: Array, b: Array) -> tuple[Array, Array]:
    """The states at all positions, and the last one."""
    zeros = jnp.zeros((len(x), w_h.shape[1]), x.dtype)

    def cell(carry: tuple[Array, Array], of_x: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = carry
        i, f, g, o = jnp.split(of_x + h @ w_h.T, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return (h, c), h

    (last, _), states = lax.scan(cell, (zeros, zeros), (x @ w_x.T + b).swapaxes(0, 1))
    return states.swapaxes(0, 1), last


def convolution(x: Array, w: Array, dilation: int, groups: int) -> Array:
    """A kernel of 3x3 whose last axis is that of the output channels."""
    return lax.conv_general_dilated(
        x, w, (1, 1), [(dilation, dilation)] * 2, rhs_dilation=(dilation, dilation), feature_group_count=groups,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip


def upsample(x: Array) -> Array:
    return x.repeat(2, 1).repeat(2, 2)


def conv(x: Array, w: Array, b: Array | None, stride: int, padding: int) -> Array:
    y = lax.conv_general_dilated(
        x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y if b is None else y + b


def avg_pool(x: Array) -> Array:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).mean((2, 4))


def batch_norm(x: Array, w: dict[str, Array], path: str, is_training: bool) -> Array:
    mean, var = w[f"{path}mean"], w[f"{path}var"]
    if is_training:
        running, (mean, var) = (mean, var), (x.mean((0, 1, 2)), x.var((0, 1, 2)))
        count = x.size // x.shape[-1]
        w[f"{path}mean"] = 0.9 * running[0] + 0.1 * lax.stop_gradient(mean)
        w[f"{path}var"] = 0.9 * running[1] + 0.1 * count / (count - 1) * lax.stop_gradient(var)
    return w[f"{path}gain"] * (x - mean) * lax.rsqrt(var + 1e-5) + w[f"{path}b"]


def cross_entropy(logits: Array, target: Array) -> Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[..., None], -1).mean()


def squared_error(x: Array, target: Array) -> Array:
    return jnp.mean((x - target) ** 2)


def binary_cross_entropy(logits: Array, target: Any) -> Array:
    return jnp.maximum(logits, 0) - logits * target + jnp.log1p(jnp.exp(-jnp.abs(logits)))


# --- functions --------------------------------------------------------------------------------------------------------


def call_of(f: Any, arrays: Mapping[str, Any], learned: Sequence[str]) -> Callable[[], Any]:
    """Computes a function of arrays; if there are `learned` ones, its gradients by them as well, as others do."""
    placed = {name: jnp.asarray(array) for name, array in arrays.items()}

    def values(learned: Mapping[str, Array], others: Mapping[str, Array]) -> Any:
        return f(LIBRARY, **learned, **others)

    function = jax.jit(jax.value_and_grad(values) if learned else values)
    by = {name: placed[name] for name in learned}
    others = {name: array for name, array in placed.items() if name not in learned}
    return lambda: jax.block_until_ready(function(by, others))


def model_of(f: Any, weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """Computes a model for given weights."""
    names = {str(number): path for number, path in enumerate(weights)}
    arrays = {number: weights[path] for number, path in names.items()} | dict(inputs)

    def of_all(lib: Any, **arrays: Array) -> Any:
        by_path = {path: arrays[number] for number, path in names.items()}
        return f(lib, by_path, **{name: arrays[name] for name in inputs})

    return call_of(of_all, arrays, ())


# --- training ---------------------------------------------------------------------------------------------------------


class Trainer:
    """A whole step by `jax.jit`."""

    def __init__(self, training: Training) -> None:
        weights = {path: jnp.asarray(array) for path, array in training.weights.items()}
        paths = [path for path in weights if path not in training.states]
        moments = {path: (jnp.zeros_like(weights[path]), jnp.zeros_like(weights[path])) for path in paths}
        self.state: Any = (weights, moments, jnp.zeros((), jnp.float32))
        adam = training.optimizer

        def step(state: Any, batch: Mapping[str, Array]) -> tuple[Any, list[Array]]:
            weights, moments, count = state
            rate, count, values = adam.rate_at(count, jnp.cos), count + 1, []
            first, second = (1 - beta**count for beta in adam.betas)
            for objective in training.objectives:

                def loss(params: Mapping[str, Array], weights=weights, objective=objective) -> Any:  # type: ignore[no-untyped-def]
                    changed = {**weights, **params}
                    return objective.loss(LIBRARY, changed, batch), {path: changed[path] for path in training.states}

                params = {path: weights[path] for path in training.paths(objective)}
                (value, states), grads = jax.value_and_grad(loss, has_aux=True)(params)
                weights, moments = {**weights, **states}, dict(moments)
                for path, g in grads.items():
                    m, v = moments[path]
                    m, v = (b * old + (1 - b) * new for b, old, new in zip(adam.betas, (m, v), (g, g * g), strict=True))
                    moments[path] = m, v
                    weights[path] = (1 - rate * adam.decay) * weights[path] - rate * (m / first) / (
                        jnp.sqrt(v / second) + adam.eps
                    )
                values.append(value)
            return (weights, moments, count), values

        self._step = jax.jit(step, donate_argnums=0)

    def step(self, batch: Mapping[str, np.ndarray[Any, Any]]) -> list[float]:
        self.state, values = self._step(self.state, batch)
        return [float(value) for value in values]


LIBRARY = sys.modules[__name__]

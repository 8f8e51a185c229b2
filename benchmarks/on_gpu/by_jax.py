"""The workloads in JAX, each a compiled function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from compare.workloads import TRAINING, Array, Workload

Params = Sequence[jax.Array]


def version() -> str:
    return f"jax {jax.__version__} on {jax.devices()[0].device_kind}"


def entropy(scores: jax.Array, y: jax.Array) -> jax.Array:
    logs = jax.nn.log_softmax(scores.astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(logs, y[..., None], -1))


def mlp(p: Params, x: jax.Array, y: jax.Array, w: Workload) -> jax.Array:
    for weight, bias in ((p[0], p[1]), (p[2], p[3])):
        x = jax.nn.relu(x @ weight + bias)
    return entropy(x @ p[4] + p[5], y)


def cnn(p: Params, x: jax.Array, y: jax.Array, w: Workload) -> jax.Array:
    def layer(x: jax.Array, kernel: jax.Array, bias: jax.Array, padding: str) -> jax.Array:
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (1, 1), padding) + bias[:, None, None])
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    x = layer(layer(x, p[0], p[1], "SAME"), p[2], p[3], "VALID").reshape(len(x), -1)
    x = jax.nn.relu(jax.nn.relu(x @ p[4] + p[5]) @ p[6] + p[7])
    return entropy(x @ p[8] + p[9], y)


def normed(x: jax.Array, gain: jax.Array, bias: jax.Array, eps: float = 1e-5) -> jax.Array:
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + eps)
    return (centered * scale * gain + bias).astype(x.dtype)


def attended(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bhsd,bhtd->bhst", q, k).astype(jnp.float32) / math.sqrt(q.shape[3])
    past = jnp.tril(jnp.ones(scores.shape[2:], bool))
    return jnp.einsum("bhst,bhtd->bhsd", jax.nn.softmax(jnp.where(past, scores, -jnp.inf)).astype(v.dtype), v)


def gpt(p: Params, x: jax.Array, y: jax.Array, w: Workload) -> jax.Array:
    h, b, t, d, heads = p[0][x] + p[1], w["B"], w["T"], w["D"], w["H"]
    for n in range(w["L"]):
        g1, b1, qkv, qkv_bias, out, out_bias, g2, b2, wide, wide_bias, back, back_bias = p[2 + 12 * n : 14 + 12 * n]
        parts = jnp.split(normed(h, g1, b1) @ qkv + qkv_bias, 3, -1)
        mixed = attended(*(part.reshape(b, t, heads, d // heads).swapaxes(1, 2) for part in parts))
        h = h + mixed.swapaxes(1, 2).reshape(b, t, d) @ out + out_bias
        h = h + jax.nn.gelu(normed(h, g2, b2) @ wide + wide_bias, approximate=True) @ back + back_bias
    return entropy(normed(h, p[-3], p[-2]) @ p[-1], y)


LOSSES: dict[str, Callable[..., jax.Array]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}


class Step:
    def __init__(self, w: Workload) -> None:
        self.inputs = jnp.asarray(w["x"]), jnp.asarray(w["y"])
        params = [jnp.asarray(array) for array in w["params"]]
        self.state: Any = (params, *([jnp.zeros_like(p) for p in params] for _ in range(2)), jnp.zeros((), jnp.float32))
        loss = LOSSES[w["kind"]]

        def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
            params, first, second, count = state
            value, grads = jax.value_and_grad(lambda p: loss(p, x, y, w))(params)
            count = count + 1
            if w["kind"] != "gpt":
                first = [w["mom"] * m + g for m, g in zip(first, grads, strict=True)]
                params = [p - w["lr"] * m for p, m in zip(params, first, strict=True)]
                return (params, first, second, count), value
            first = [w["b1"] * m + (1 - w["b1"]) * g for m, g in zip(first, grads, strict=True)]
            second = [w["b2"] * v + (1 - w["b2"]) * g * g for v, g in zip(second, grads, strict=True)]
            scale = w["lr"] * jnp.sqrt(1 - w["b2"] ** count) / (1 - w["b1"] ** count)
            moved = [
                p - (scale * m / (jnp.sqrt(v) + w["eps"])).astype(p.dtype)
                for p, m, v in zip(params, first, second, strict=True)
            ]
            return (moved, first, second, count), value

        self.step = jax.jit(step, donate_argnums=0)

    def call(self) -> None:
        self.state, self.result = self.step(self.state, *self.inputs)

    def value(self) -> list[Array]:
        return [np.asarray(self.result, np.float32)]


def with_gradients(function: Callable[..., jax.Array]) -> Callable[..., Any]:
    def run(g: jax.Array, *operands: jax.Array) -> Any:
        y, back = jax.vjp(function, *operands)
        return (y, *back(g))

    return run


OPERATIONS: dict[str, tuple[str, Callable[[Workload], Callable[..., Any]]]] = {
    "gemm": ("ab", lambda w: jnp.matmul),
    "attention": ("qkv", lambda w: attended),
    "softmax": ("gx", lambda w: with_gradients(jax.nn.softmax)),
    "layernorm": ("gxwb", lambda w: with_gradients(lambda x, g, b: normed(x, g, b, w["eps"]))),
    "chain": ("x", lambda w: lambda x: jnp.tanh(w["a"] * x + w["b"]) * jax.nn.sigmoid(x) + jax.nn.relu(x)),
}


class Operation:
    def __init__(self, w: Workload) -> None:
        names, make = OPERATIONS[w["kind"]]
        self.inputs = [jnp.asarray(w[name]) for name in names]
        self.run = jax.jit(make(w))

    def call(self) -> None:
        self.result = self.run(*self.inputs)

    def value(self) -> list[Array]:
        results = self.result if isinstance(self.result, tuple) else (self.result,)
        return [np.asarray(array, np.float32) for array in results]


def build(w: Workload) -> Step | Operation:
    return (Step if w["kind"] in TRAINING else Operation)(w)


def sync() -> None:
    jax.effects_barrier()
    (jnp.zeros(()) + 0).block_until_ready()

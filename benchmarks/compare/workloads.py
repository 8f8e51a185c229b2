"""The workloads: inputs and initial parameters as float32 arrays from fixed seeds, the same for every system.

A workload is a mapping: `kind` says which mathematics, `flops` or `bytes` how much of it there is. Weights are
`[inputs, outputs]`, kernels of convolutions `[outputs, inputs, 5, 5]`, images `[batch, channel, height, width]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Workload = dict[str, Any]
TRAINING = frozenset({"mlp", "tiny", "cnn", "gpt"})
MI = 1024 * 1024


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def gemm(m: int, k: int, n: int) -> Workload:
    rng = np.random.default_rng(1)
    a, b = normal(rng, m, k), normal(rng, k, n)
    return {"kind": "gemm", "M": m, "K": k, "N": n, "a": a, "b": b, "flops": 2.0 * m * n * k}


def linear(rng: np.random.Generator, inputs: int, outputs: int) -> list[Array]:
    """A weight and a bias."""
    k = 1 / math.sqrt(inputs)
    return [rng.uniform(-k, k, shape).astype(np.float32) for shape in ((inputs, outputs), (outputs,))]


def perceptron(batch: int = 64, sizes: Sequence[int] = (784, 128, 64, 10)) -> Workload:
    """Layers between so many features."""
    rng = np.random.default_rng(2)
    x = normal(rng, batch, sizes[0])
    x[batch // 2 :] = x[: batch // 2]  # the same inputs with other labels: the loss cannot vanish
    y = rng.integers(0, sizes[-1], batch).astype(np.int32)
    layers = list(pairwise(sizes))
    params = [array for layer in layers for array in linear(rng, *layer)]
    products = [3 * inputs * outputs for inputs, outputs in layers]
    flops = 2.0 * batch * (sum(products) - products[0] / 3)  # the first layer hands no gradient on
    return {"kind": "mlp", "x": x, "y": y, "params": params, "lr": 1e-3, "mom": 0.9, "flops": flops}


def moons(batch: int) -> Workload:
    """A tiny network with a hinge loss on two half-moons."""
    rng, n = np.random.default_rng(3), 100
    t = rng.uniform(0, math.pi, n)
    upper, lower = t[: n // 2], t[n // 2 :]
    points = np.concatenate(
        [np.stack([np.cos(upper), np.sin(upper)], 1), np.stack([1 - np.cos(lower), 0.5 - np.sin(lower)], 1)]
    )
    points = (points + 0.1 * rng.standard_normal(points.shape)).astype(np.float32)
    sides = np.concatenate([-np.ones(n // 2), np.ones(n // 2)]).astype(np.float32)
    chosen = rng.permutation(n)[:batch]
    params = linear(rng, 2, 16) + linear(rng, 16, 16) + linear(rng, 16, 1)
    flops = 2.0 * 3 * batch * (32 + 256 + 16)
    return {
        "kind": "tiny", "x": points[chosen], "y": sides[chosen], "params": params, "lr": 1e-2, "alpha": 1e-4,
        "flops": flops,
    }  # fmt: skip


def lenet(batch: int = 64) -> Workload:
    """Convolutions of 5x5, the first padded to the size of its input, and pools of 2x2."""
    rng = np.random.default_rng(4)
    x = normal(rng, batch, 1, 28, 28)
    x[batch // 2 :] = x[: batch // 2]
    y = rng.integers(0, 10, batch).astype(np.int32)

    def conv(inputs: int, outputs: int) -> list[Array]:
        k = 1 / math.sqrt(inputs * 25)
        return [rng.uniform(-k, k, shape).astype(np.float32) for shape in ((outputs, inputs, 5, 5), (outputs,))]

    params = conv(1, 6) + conv(6, 16) + linear(rng, 400, 120) + linear(rng, 120, 84) + linear(rng, 84, 10)
    flops = 2.0 * batch * (28 * 28 * 6 * 25 * 2 + 10 * 10 * 16 * 150 * 3 + (400 * 120 + 120 * 84 + 84 * 10) * 3)
    return {"kind": "cnn", "x": x, "y": y, "params": params, "lr": 1e-3, "mom": 0.9, "flops": flops}


DECODER = {"L": 2, "D": 64, "H": 4, "T": 64, "B": 16, "V": 64}


def decoder(sizes: Mapping[str, int] = DECODER) -> Workload:
    """Layers, width, heads, context, batch, vocabulary are those of `sizes`; norms first, learned positions.

    Parameters: table, positions; each layer gain and bias, weight and bias of queries, keys and values side by side,
    of the projection, gain and bias, weights and biases of the two layers behind; gain and bias, weight of the scores.
    """
    rng = np.random.default_rng(5)
    layers, d, t, b, v = (sizes[name] for name in "LDTBV")

    def small(*shape: int) -> Array:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    def filled(value: float, *shape: int) -> Array:
        return np.full(shape, value, np.float32)

    params = [small(v, d), small(t, d)]
    for _ in range(layers):
        params += [filled(1, d), filled(0, d), small(d, 3 * d), filled(0, 3 * d), small(d, d), filled(0, d)]
        params += [filled(1, d), filled(0, d), small(d, 4 * d), filled(0, 4 * d), small(4 * d, d), filled(0, d)]
    params += [filled(1, d), filled(0, d), small(d, v)]
    x, y = (rng.integers(0, v, (b, t)).astype(np.int32) for _ in "xy")
    flops = 3 * 2.0 * b * t * (layers * (12 * d * d + 2 * t * d) + d * v)
    return {
        "kind": "gpt", "x": x, "y": y, "params": params, "lr": 1e-4, "b1": 0.9, "b2": 0.999, "eps": 1e-8,
        "flops": flops, **sizes,
    }  # fmt: skip


def chain(kind: str = "chain", cells: int = 16 * MI) -> Workload:
    """`tanh(a*x + b) * sigmoid(x) + relu(x)`; in place, the result takes the place of `x`."""
    x = np.random.default_rng(6).standard_normal(cells, dtype=np.float32)
    return {"kind": kind, "x": x, "a": 1.1, "b": 0.3, "bytes": 8.0 * x.size}


def rows(kind: str, seed: int, shape: tuple[int, int] = (4096, 1024)) -> Workload:
    """Forward and backward of softmax or layer norm: least traffic is that of x, g, y and dx."""
    rng = np.random.default_rng(seed)
    arrays: Workload = {name: rng.standard_normal(shape, dtype=np.float32) for name in "xg"}
    if kind == "layernorm":
        arrays |= {name: rng.standard_normal(shape[1], dtype=np.float32) for name in "wb"} | {"eps": 1e-5}
    return {"kind": kind, **arrays, "bytes": 16.0 * arrays["x"].size}


def big_sum(cells: int = 64 * MI) -> Workload:
    x = np.random.default_rng(9).random(cells, dtype=np.float32)
    return {"kind": "bigsum", "x": x, "bytes": 4.0 * x.size}


def einsum(eq: str, *shapes: tuple[int, ...]) -> Workload:
    rng = np.random.default_rng(10)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
    operands = zip(eq.partition("->")[0].split(","), shapes, strict=True)
    sizes = {axis: size for axes, shape in operands for axis, size in zip(axes, shape, strict=True)}
    return {"kind": "einsum", "eq": eq, "a": a, "b": b, "flops": 2.0 * math.prod(sizes.values())}


def nothing() -> Workload:
    """One is added to eight cells: what a call costs."""
    return {"kind": "noop", "x": np.zeros(8, np.float32)}


HEADS = (8, 8, 256, 64)
SQUARES = (64, 128, 256, 512, 1024, 2048)
BATCHES = (32, 64, 128, 256, 512)
WORKLOADS: dict[str, Callable[[], Workload]] = {
    **{f"W1_{n}": lambda n=n: gemm(n, n, n) for n in SQUARES},
    **{f"W1_{m}x784x128": lambda m=m: gemm(m, 784, 128) for m in BATCHES},
    "W2": perceptron,
    "W3_b1": lambda: moons(1),
    "W3_b50": lambda: moons(50),
    "W4": lenet,
    "W5": decoder,
    "W6_chain": chain,
    "W6_chain_inpl": lambda: chain("chain_inplace"),
    "W6_layernorm": lambda: rows("layernorm", 7),
    "W6_softmax": lambda: rows("softmax", 8),
    "W6_sum": big_sum,
    "W7_qk": lambda: einsum("bhqd,bhkd->bhqk", HEADS, HEADS),
    "W7_pv": lambda: einsum("bhqk,bhkd->bhqd", (8, 8, 256, 256), HEADS),
    "W7_odd": lambda: einsum("ibjck,cjlb->bkli", (16, 8, 32, 8, 32), (8, 32, 64, 8)),
    "W8_noop": nothing,
}

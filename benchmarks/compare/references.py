"""What the workloads come to, in double precision: arrays by NumPy, losses of training steps by PyTorch.

    PYTHONPATH=benchmarks python -m compare.references

computes the losses of the first steps anew; this needs PyTorch, the benchmarks only read `losses.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compare.workloads import TRAINING, WORKLOADS, Array, Workload

LOSSES = Path(__file__).with_name("losses.json")
STEPS = 5
TOLERANCE = 1e-5  # of a loss, or of the largest cell: float32 sums thousands of products, in any order


class Wrong(Exception):
    """A system computes something else."""


def check(name: str, workload: Workload, results: Sequence[Any]) -> float:
    """The worst error: of the losses of the first steps, or of the arrays after the first call. Refuses a large one."""
    wanted = json.loads(LOSSES.read_text())[name] if workload["kind"] in TRAINING else arrays(workload)
    if len(results) != len(wanted):
        raise Wrong(f"{len(results)} results, and not {len(wanted)}")
    worst = max(error(np.asarray(got), np.asarray(want)) for got, want in zip(results, wanted, strict=True))
    if not worst <= TOLERANCE:
        raise Wrong(f"the results are off by {worst:.1e} of the largest")
    return worst


def error(got: Array, want: Array) -> float:
    if got.shape != want.shape:
        raise Wrong(f"a result has the shape {got.shape}, and not {want.shape}")
    return float(np.max(np.abs(got - want)) / np.max(np.abs(want)))


def arrays(w: Workload) -> list[Array]:
    """The results of the first call of what is no training step."""
    x = np.asarray(w["x"], np.float64) if "x" in w else None
    match w["kind"]:
        case "gemm":
            return [w["a"].astype(np.float64) @ w["b"]]
        case "einsum":
            return [np.einsum(w["eq"], w["a"].astype(np.float64), w["b"], optimize=True)]
        case "chain" | "chain_inplace":
            return [np.tanh(w["a"] * x + w["b"]) / (1 + np.exp(-x)) + np.maximum(x, 0)]
        case "bigsum":
            return [np.sum(x)]
        case "noop":
            return [x + 1]
        case "softmax":
            e = np.exp(x - x.max(1, keepdims=True))
            y = e / e.sum(1, keepdims=True)
            return [y, y * (w["g"] - np.sum(w["g"] * y, 1, keepdims=True))]
        case "layernorm":
            centered = x - x.mean(1, keepdims=True)
            scale = 1 / np.sqrt(np.mean(centered**2, 1, keepdims=True) + w["eps"])
            normed, t = centered * scale, w["g"] * w["w"].astype(np.float64)
            dx = scale * (t - t.mean(1, keepdims=True) - normed * np.mean(t * normed, 1, keepdims=True))
            return [normed * w["w"] + w["b"], dx, np.sum(w["g"] * normed, 0), w["g"].sum(0, dtype=np.float64)]
        case kind:
            raise NotImplementedError(kind)


# --- losses of training steps, by PyTorch in double precision ---------------------------------------------------------


def losses(w: Workload) -> list[float]:
    import torch

    def double(array: Array) -> torch.Tensor:
        return torch.from_numpy(array).double() if array.dtype == np.float32 else torch.from_numpy(array).long()

    x, y = double(w["x"]), double(w["y"])
    params = [double(p).requires_grad_() for p in w["params"]]
    if w["kind"] == "gpt":
        optimizer: Any = torch.optim.Adam(params, lr=w["lr"], betas=(w["b1"], w["b2"]), eps=w["eps"])
    else:
        optimizer = torch.optim.SGD(params, lr=w["lr"], momentum=w.get("mom", 0.0))
    values = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = NETWORKS[w["kind"]](w, params, x, y)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


def _perceptron(params: Any, x: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = params
    return ((x @ w1 + b1).relu() @ w2 + b2).relu() @ w3 + b3


def _mlp(w: Workload, params: Any, x: Any, y: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(_perceptron(params, x), y)


def _tiny(w: Workload, params: Any, x: Any, y: Any) -> Any:
    return (1 - y * _perceptron(params, x)[:, 0]).relu().mean() + w["alpha"] * sum((p**2).sum() for p in params)


def _lenet(w: Workload, params: Any, x: Any, y: Any) -> Any:
    from torch.nn.functional import conv2d, cross_entropy, max_pool2d

    k1, c1, k2, c2, *layers = params
    h = max_pool2d(conv2d(x, k1, c1, padding=2).relu(), 2)
    h = max_pool2d(conv2d(h, k2, c2).relu(), 2)
    return cross_entropy(_perceptron(layers, h.flatten(1)), y)


def _decoder(w: Workload, params: Any, x: Any, y: Any) -> Any:
    from torch.nn.functional import cross_entropy, gelu, layer_norm, scaled_dot_product_attention

    d, heads = w["D"], w["H"]
    table, position, *layers = params
    h = table[x] + position
    for n in range(w["L"]):
        g1, e1, qkv, qkv_bias, out, out_bias, g2, e2, wide, wide_bias, back, back_bias = layers[12 * n : 12 * (n + 1)]
        packed = layer_norm(h, (d,), g1, e1) @ qkv + qkv_bias
        q, k, v = (t.unflatten(2, (heads, d // heads)).transpose(1, 2) for t in packed.split(d, 2))
        h = h + scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2) @ out + out_bias
        h = h + gelu(layer_norm(h, (d,), g2, e2) @ wide + wide_bias, approximate="tanh") @ back + back_bias
    gain, bias, scores = layers[12 * w["L"] :]
    return cross_entropy((layer_norm(h, (d,), gain, bias) @ scores).flatten(0, 1), y.flatten())


NETWORKS = {"mlp": _mlp, "tiny": _tiny, "cnn": _lenet, "gpt": _decoder}


def main() -> None:
    workloads = {name: make() for name, make in WORKLOADS.items() if name.startswith(("W2", "W3", "W4", "W5"))}
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(losses(workload))}" for name, workload in workloads.items())
    LOSSES.write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__":
    main()

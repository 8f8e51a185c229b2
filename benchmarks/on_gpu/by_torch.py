"""The workloads in PyTorch, eager or compiled: `build` gives what a call does, what waits, and the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from compare.workloads import TRAINING, Array, Workload

DEVICE = os.environ.get("BENCH_TORCH_DEVICE", "cuda")
Params = Sequence[torch.Tensor]


def version() -> str:
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE
    return f"torch {torch.__version__} on {where}"


def put(array: Array) -> torch.Tensor:
    half = array.dtype.name == "bfloat16"
    tensor = torch.from_numpy(np.ascontiguousarray(array.view(np.int16) if half else array))
    return (tensor.view(torch.bfloat16) if half else tensor).to(DEVICE)


def mlp(p: Params, x: torch.Tensor, y: torch.Tensor, w: Workload) -> torch.Tensor:
    for weight, bias in zip(p[0:4:2], p[1:4:2], strict=True):
        x = torch.relu(x @ weight + bias)
    return F.cross_entropy((x @ p[4] + p[5]).float(), y)


def cnn(p: Params, x: torch.Tensor, y: torch.Tensor, w: Workload) -> torch.Tensor:
    x = F.max_pool2d(torch.relu(F.conv2d(x, p[0], p[1], padding=2)), 2)
    x = F.max_pool2d(torch.relu(F.conv2d(x, p[2], p[3])), 2).flatten(1)
    x = torch.relu(torch.relu(x @ p[4] + p[5]) @ p[6] + p[7])
    return F.cross_entropy(x @ p[8] + p[9], y)


def gpt(p: Params, x: torch.Tensor, y: torch.Tensor, w: Workload) -> torch.Tensor:
    h, d, heads = p[0][x] + p[1], w["D"], w["H"]
    for n in range(w["L"]):
        g1, b1, qkv, qkv_bias, out, out_bias, g2, b2, wide, wide_bias, back, back_bias = p[2 + 12 * n : 14 + 12 * n]
        parts = (F.layer_norm(h, (d,), g1, b1) @ qkv + qkv_bias).split(d, -1)
        q, k, v = (part.unflatten(-1, (heads, d // heads)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        h = h + mixed @ out + out_bias
        inner = F.gelu(F.layer_norm(h, (d,), g2, b2) @ wide + wide_bias, approximate="tanh")
        h = h + inner @ back + back_bias
    scores = F.layer_norm(h, (d,), p[-3], p[-2]) @ p[-1]
    return F.cross_entropy(scores.flatten(0, 1).float(), y.flatten())


LOSSES: dict[str, Callable[..., torch.Tensor]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}


class Step:
    """A whole training step."""

    def __init__(self, w: Workload, compiler: Callable[..., Any]) -> None:
        self.params = [put(array) for array in w["params"]]
        self.state = [torch.zeros_like(p) for p in self.params for _ in range(1 + (w["kind"] == "gpt"))]
        self.count = torch.zeros((), device=DEVICE)
        x, y = put(w["x"]), put(w["y"]).long()
        self.inputs = (x.long() if w["kind"] == "gpt" else x), y
        loss = LOSSES[w["kind"]]

        def step(params: Params, state: Params, count: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
            grads, value = torch.func.grad_and_value(lambda p: loss(p, x, y, w))(list(params))
            count += 1
            for n, (p, g) in enumerate(zip(params, grads, strict=True)):
                if w["kind"] == "gpt":
                    m, v = state[2 * n], state[2 * n + 1]
                    m.mul_(w["b1"]).add_(g, alpha=1 - w["b1"])
                    v.mul_(w["b2"]).addcmul_(g, g, value=1 - w["b2"])
                    scale = (1 - w["b2"] ** count).sqrt() / (1 - w["b1"] ** count)
                    p.sub_((w["lr"] * scale * m / (v.sqrt() + w["eps"])).to(p.dtype))
                else:
                    state[n].mul_(w["mom"]).add_(g)
                    p.sub_(state[n], alpha=w["lr"])
            return value

        self.step = compiler(step)

    def call(self) -> None:
        with torch.no_grad():
            self.result = self.step(self.params, self.state, self.count, *self.inputs)

    def value(self) -> list[Array]:
        return [np.asarray(self.result.item())]


def with_gradients(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def run(g: torch.Tensor, *operands: torch.Tensor) -> Any:
        y, back = torch.func.vjp(function, *operands)
        return (y, *back(g))

    return run


OPERATIONS: dict[str, tuple[str, Callable[[Workload], Callable[..., Any]]]] = {
    "gemm": ("ab", lambda w: torch.matmul),
    "attention": ("qkv", lambda w: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "softmax": ("gx", lambda w: with_gradients(lambda x: torch.softmax(x, 1))),
    "layernorm": ("gxwb", lambda w: with_gradients(lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b, w["eps"]))),
    "chain": ("x", lambda w: lambda x: torch.tanh(w["a"] * x + w["b"]) * torch.sigmoid(x) + torch.relu(x)),
}


class Operation:
    def __init__(self, w: Workload, compiler: Callable[..., Any]) -> None:
        names, make = OPERATIONS[w["kind"]]
        self.inputs = [put(w[name]) for name in names]
        self.run = compiler(make(w))

    def call(self) -> None:
        self.result = self.run(*self.inputs)

    def value(self) -> list[Array]:
        results = self.result if isinstance(self.result, tuple) else (self.result,)
        return [array.float().cpu().numpy() for array in results]


def build(w: Workload, *, compiled: bool) -> Step | Operation:
    compiler = torch.compile if compiled else lambda function: function
    return (Step if w["kind"] in TRAINING else Operation)(w, compiler)


def sync() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()

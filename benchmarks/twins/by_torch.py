"""The functions of `twins.models` and training in PyTorch, eager or compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from twins.objectives import Training

Array = torch.Tensor
Batch = Mapping[str, np.ndarray[Any, Any]]

tanh, sigmoid, exp, sqrt, relu, embedding = (
    torch.tanh, torch.sigmoid, torch.exp, torch.sqrt, torch.relu, F.embedding
)  # fmt: skip
concatenate, cumsum, argmax, argmin = torch.cat, torch.cumsum, torch.argmax, torch.argmin
logsumexp, softmax = partial(torch.logsumexp, dim=-1), partial(torch.softmax, dim=-1)


def topk(x: Array, k: int) -> Array:
    return x.topk(k)[0]


def transposed(x: Array, order: tuple[int, ...]) -> Array:
    """A copy."""
    return x.permute(order).contiguous()


def linear(x: Array, w: Array, b: Array | None) -> Array:
    return F.linear(x, w.flatten(1), b)


def gelu(x: Array, approximate: bool) -> Array:
    return F.gelu(x, approximate="tanh" if approximate else "none")


def pad(x: Array, before: int, after: int) -> Array:
    return F.pad(x, (0, 0, before, after))


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    return x.expand(shape)


def stop_gradient(x: Array) -> Array:
    return x.detach()


def layer_norm(x: Array, gain: Array, b: Array, eps: float) -> Array:
    return F.layer_norm(x, gain.shape, gain, b, eps)


def attention(q: Array, k: Array, v: Array, causal: bool) -> Array:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def gru(x: Array, start: Array | None, w_x: Array, w_h: Array, b_x: Array, b_h: Array) -> tuple[Array, Array]:
    """The states at all positions, and the last one."""
    h = x.new_zeros(1, len(x), w_h.shape[1]) if start is None else start[None]
    states, last = torch.gru(x, h, [w_x, w_h, b_x, b_h], True, 1, 0.0, True, False, True)
    return states, last[0]


def lstm(x: Array, start: None, w_x: Array, w_h: Array, b: Array) -> tuple[Array, Array]:
    """The states at all positions, and the last one."""
    h = x.new_zeros(1, len(x), w_h.shape[1])
    states, last, _ = torch.lstm(x, (h, h), [w_x, w_h, b, torch.zeros_like(b)], True, 1, 0.0, True, False, True)
    return states, last[0]


def convolution(x: Array, w: Array, dilation: int, groups: int) -> Array:
    """A kernel of 3x3 whose last axis is that of the output channels."""
    x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    return F.conv2d(x, w, None, 1, dilation, dilation, groups).permute(0, 2, 3, 1)


def upsample(x: Array) -> Array:
    return F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2).permute(0, 2, 3, 1)


def conv(x: Array, w: Array, b: Array | None, stride: int, padding: int) -> Array:
    return F.conv2d(x.permute(0, 3, 1, 2), w, b, stride, padding).permute(0, 2, 3, 1)


def avg_pool(x: Array) -> Array:
    return F.avg_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)


def conv_transpose(x: Array, w: Array, b: Array, stride: int) -> Array:
    """`w` has the axes height, width, inputs, outputs."""
    return F.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(2, 3, 0, 1), b, stride).permute(0, 2, 3, 1)


def max_pool(x: Array) -> Array:
    return F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)


def batch_norm(x: Array, w: dict[str, Array], path: str, is_training: bool) -> Array:
    mean, var, gain, b = (w[f"{path}{name}"] for name in ("mean", "var", "gain", "b"))
    return F.batch_norm(x.permute(0, 3, 1, 2), mean, var, gain, b, is_training).permute(0, 2, 3, 1)


def cross_entropy(logits: Array, target: Array) -> Array:
    return F.cross_entropy(logits.flatten(0, -2), target.flatten().long())


def squared_error(x: Array, target: Array) -> Array:
    return F.mse_loss(x, target)


def binary_cross_entropy(logits: Array, target: Any) -> Array:
    target = target if isinstance(target, torch.Tensor) else torch.full_like(logits, target)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


# --- functions --------------------------------------------------------------------------------------------------------


def call_of(f: Any, arrays: Mapping[str, Any], learned: Sequence[str], compiled: bool) -> Callable[[], Any]:
    """Computes a function of arrays, or its gradients by the `learned` ones."""
    tensors = {name: torch.tensor(array, requires_grad=name in learned) for name, array in arrays.items()}
    function = torch.compile(partial(f, LIBRARY), dynamic=False) if compiled else partial(f, LIBRARY)
    if learned:
        return lambda: torch.autograd.grad(function(**tensors), [tensors[name] for name in learned])

    def values() -> Any:
        with torch.no_grad():
            return function(**tensors)

    return values


def model_of(f: Any, weights: Mapping[str, Any], inputs: Mapping[str, Any], compiled: bool) -> Callable[[], Any]:
    """Computes a model for given weights."""
    on_weights = {path: put(path, array) for path, array in weights.items()}
    return call_of(lambda lib, **xs: f(lib, on_weights, **xs), inputs, (), compiled)


# --- training ---------------------------------------------------------------------------------------------------------


def put(path: str, array: np.ndarray[Any, Any]) -> Array:
    """A weight; kernels of convolutions get the order of PyTorch."""
    is_kernel = array.ndim == 4 and "conv2d" in path
    return torch.tensor(array.transpose(3, 2, 0, 1) if is_kernel else array).contiguous()


class Trainer:
    """Training by autograd and the fused AdamW; with `compiled`, losses are functions of `torch.compile`."""

    def __init__(self, training: Training, compiled: bool = False) -> None:
        self.training, self.count = training, 0
        self.weights = {path: put(path, array) for path, array in training.weights.items()}
        adam = training.optimizer
        self.params, self.optimizers, self.losses = [], [], []
        for objective in training.objectives:
            params = [self.weights[path].requires_grad_() for path in training.paths(objective)]
            self.params.append(params)
            self.optimizers.append(torch.optim.AdamW(params, adam.rate, adam.betas, adam.eps, adam.decay, fused=True))
            loss = partial(objective.loss, LIBRARY)
            self.losses.append(torch.compile(loss, dynamic=False) if compiled else loss)

    def step(self, batch: Batch) -> list[float]:
        arrays = {name: torch.from_numpy(array) for name, array in batch.items()}
        values = []
        for loss, params, optimizer in zip(self.losses, self.params, self.optimizers, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = self.training.optimizer.rate_at(self.count)
            value = loss(self.weights, arrays)
            optimizer.zero_grad()
            value.backward(inputs=params)
            optimizer.step()
            values.append(value.item())
        self.count += 1
        return values

    def predict(self, batch: Batch) -> np.ndarray[Any, Any]:
        with torch.no_grad():
            arrays = {name: torch.from_numpy(array) for name, array in batch.items()}
            return self.training.predict(LIBRARY, self.weights, arrays).numpy()


LIBRARY = sys.modules[__name__]

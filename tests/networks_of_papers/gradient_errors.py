"""The errors of gradients in float32, and those of PyTorch in float32, for a network.

The error of an array is the largest difference from the gradient that PyTorch computes in float64, relative to the
largest cell. A single error is a matter of chance, in both systems. Therefore the weights are drawn several times, each
time with random changes of up to a thousandth, and the medians of the errors of an array are compared: in a draw where
rounding decides on which side of a `relu` or in which cell of a pool a gradient is, either system has a large error.
Arrays that are 0 up to rounding are left out, such as biases before a normalization.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import ocannl as oc
from ocannl import train

from .network import NETWORKS, Arrays, Built, Network, build
from .twin import backpropagate, negligible

CHANGE = 1e-3  # of weights, relative
MAX_RATIO = 4.0
Errors = dict[str, tuple[float, float]]
"""The errors of each array, of ocannl and of PyTorch."""


def drawn(weights: Arrays, seed: int) -> Arrays:
    """The weights, unchanged for seed 0, otherwise with random relative changes."""
    rng = np.random.default_rng(seed)
    change = CHANGE if seed else 0.0
    return {path: (w * (1 + change * rng.uniform(-1, 1, w.shape))).astype(w.dtype) for path, w in weights.items()}


def largest_error(gradient: Any, exact: Any) -> float:
    return float(np.abs(gradient - exact).max(initial=0.0) / np.abs(exact).max(initial=0.0))


def measured(network: Network, built: Built, update: oc.Routine, weights: Arrays) -> Errors:
    """The errors for one draw of the weights."""
    for path, array in weights.items():
        built.ctx[built.params[path]] = array
    update()
    exact = {path: g.numpy() for path, g in backpropagate(network, weights, torch.float64)[1].items()}
    single = {path: g.numpy() for path, g in backpropagate(network, weights, torch.float32)[1].items()}
    ours = {path: built.ctx[p.grad] for path, p in built.trained().items()}
    paths = exact.keys() - negligible(exact)
    return {path: (largest_error(ours[path], exact[path]), largest_error(single[path], exact[path])) for path in paths}


def draws(name: str, backend: str, count: int) -> Iterator[Errors]:
    """The errors for each draw."""
    with oc.Context(backend, threads=1) as ctx:
        network = NETWORKS[name]
        built = build(network, ctx)
        update = ctx.compile(train.grad_update(built.loss), keep=[p.grad for p in built.trained().values()])
        weights = built.weights()
        for seed in range(count):
            yield measured(network, built, update, drawn(weights, seed))


def ratios(errors: Errors) -> dict[str, float]:
    """How many times the error of PyTorch, or a quarter of the rounding unit if that is more, each array has."""
    return {path: ours / max(torchs, float(np.finfo("float32").eps) / 4) for path, (ours, torchs) in errors.items()}


def medians(all_errors: list[Errors]) -> Errors:
    """Of the errors of each array that no draw leaves out."""
    paths = set.intersection(*(set(errors) for errors in all_errors))
    middle = {path: np.median([errors[path] for errors in all_errors], axis=0) for path in sorted(paths)}
    return {path: (float(ours), float(torchs)) for path, (ours, torchs) in middle.items()}

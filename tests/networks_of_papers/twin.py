"""The twin of a network in PyTorch: its weights by path, its gradients, and how far those of float32 may be off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import ocannl as oc

from .network import NETWORKS, Array, Arrays, Network, arrays_of, build

torch = pytest.importorskip("torch")

TOLERANCE = 2e-3  # of the root mean square of an array
MAX_TOLERANCE = 0.03
PERTURBATION = 1e-5  # what sums of very many terms in float32 may be off by
NOISE_FLOOR = 1e-5  # of the largest array: smaller arrays are compared with that


class Weights:
    """Weights of the block at `path`; blocks that share a name are numbered as the blocks of ocannl are."""

    def __init__(self, leaves: Mapping[str, Any], path: str = "") -> None:
        self.leaves, self.path = leaves, path
        self.counts: dict[str, int] = {}

    def __getitem__(self, name: str) -> Any:
        return self.leaves[self.path + name]

    def __call__(self, name: str) -> Weights:
        """The next inner block of this name."""
        count = self.counts[name] = self.counts.get(name, 0) + 1
        return self.block(name if count == 1 else f"{name}_{count}")

    def block(self, name: str) -> Weights:
        """The inner block of exactly this name, which may be applied several times."""
        return Weights(self.leaves, f"{self.path}{name}.")


class Gradients(NamedTuple):
    loss: float
    arrays: Arrays


def differentiate(network: Network, weights: Arrays, dtype: Any = torch.float64) -> Gradients:
    """The loss and its gradients, rounded to float32; a weight without a gradient is left out."""
    loss, gradients = backpropagate(network, weights, dtype)
    return Gradients(loss, {path: gradient.float().numpy() for path, gradient in gradients.items()})


def backpropagate(network: Network, weights: Arrays, dtype: Any) -> tuple[float, dict[str, Any]]:
    """The loss and its gradients in `dtype`."""
    leaves = {path: torch.as_tensor(array, dtype=dtype).requires_grad_() for path, array in weights.items()}
    tensors = {name: torch.tensor(array) for name, array in arrays_of(network).items()}
    inputs = {name: t.to(dtype) if t.is_floating_point() else t.long() for name, t in tensors.items()}
    loss = network.reference(Weights(leaves), **inputs)
    loss.backward()
    return loss.item(), {path: p.grad for path, p in leaves.items() if p.grad is not None}


class Reference(NamedTuple):
    """The gradients of the initial weights, and what float32 is allowed: `tolerance` is relative to each array, and
    `noise` is the largest relative error of arrays that are smaller than rounding errors, such as those that are 0."""

    gradients: Gradients
    tolerance: float
    noise: float


@lru_cache(maxsize=1)  # of large networks no more than one fits
def reference_of(name: str) -> Reference:
    """Measures how far float32 may be off: by the twin in float32, and by the twin in float64 after all weights changed
    a little in one direction and in the opposite one, since a unit whose input is nearly zero may be on or off."""
    network = NETWORKS[name]
    with oc.Context("numpy") as ctx:
        weights = build(network, ctx).weights()
    exact = differentiate(network, weights)
    sensitivity, noise = 0.0, 0.0
    for relative, dtype in (0.0, torch.float32), (PERTURBATION, torch.float64), (-PERTURBATION, torch.float64):
        inexact = differentiate(network, perturbed(weights, relative), dtype)
        error = errors(inexact.arrays, exact.arrays, root_mean_square)
        tiny = negligible(exact.arrays)
        sensitivity = max(sensitivity, *(e for path, e in error.items() if path not in tiny))
        noise = max(noise, *(error[path] for path in tiny), 0.0)
    return Reference(exact, min(max(TOLERANCE, 4 * sensitivity), MAX_TOLERANCE), max(TOLERANCE, 4 * noise))


def perturbed(weights: Arrays, relative: float) -> Arrays:
    """The weights, each changed at random by up to a part of itself; the opposite part gives the opposite change."""
    rng = np.random.default_rng(11)
    return {path: w * (1 + relative * rng.uniform(-1, 1, w.shape)) for path, w in weights.items()}


def errors(arrays: Arrays, exact: Arrays, size: Callable[[Array], float]) -> dict[str, float]:
    """How large the error of each array is, relative to the array."""
    floor = NOISE_FLOOR * max(map(size, exact.values()))
    return {path: size(arrays[path] - want) / max(size(want), floor) for path, want in exact.items()}


def negligible(exact: Arrays) -> set[str]:
    """The arrays below the noise floor."""
    sizes = {path: root_mean_square(array) for path, array in exact.items()}
    return {path for path, size in sizes.items() if size < NOISE_FLOOR * max(sizes.values())}


def root_mean_square(array: Array) -> float:
    cells = array.ravel()
    return float(np.sqrt(np.einsum("i,i->", cells, cells, dtype="float64") / max(array.size, 1)))


def largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))

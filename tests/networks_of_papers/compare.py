"""Compares a network with its PyTorch twin: the loss, all gradients, and three calls of a compiled training step.

The twin computes in float64 from the same weights. How far float32 may be from that is measured: by the twin in
float32, and by the twin in float64 after all weights changed by up to `PERTURBATION` of themselves, in one direction
and in the opposite one, since a unit whose input is nearly zero may be on or off. The tolerance of an array is
`TOLERANCE` of its largest element, or four times what was measured where that is more, and never more than
`MAX_TOLERANCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

TOLERANCE = 2e-3
MAX_TOLERANCE = 0.03
NOISE_FLOOR = 1e-5  # of the largest element of all arrays: smaller arrays are compared with that
PERTURBATION = 1e-5  # what sums of very many terms in float32 may be off by
STEPS = 3
MOMENTUM = 0.9


class Input(NamedTuple):
    """A random array of a network; the first `batch_axes` of its axes are batch axes."""

    draw: Callable[[np.random.Generator], Array]
    batch_axes: int


class Network(NamedTuple):
    """`loss` maps placeholders to the loss, `reference` maps the weights and PyTorch tensors to the same number.

    `seconds` is the time of all tests of this network, by which the default selection is made.
    """

    inputs: Mapping[str, Input]
    learning_rate: float
    seconds: float
    loss: Callable[..., oc.Tensor]
    reference: Callable[..., Any]


NETWORKS: dict[str, Network] = {}


def network(*, seconds: float, learning_rate: float = 0.01, **inputs: Input) -> Callable[[Callable], Callable]:
    """Declares a network by a function that returns its `loss` and its `reference`."""

    def declare(build: Callable[[], tuple[Callable, Callable]]) -> Callable:
        NETWORKS[build.__name__] = Network(inputs, learning_rate, seconds, *build())
        return build

    return declare


# --- inputs ----------------------------------------------------------------------------------------------------------


def normal(*dims: int, batch_axes: int = 1, std: float = 1.0) -> Input:
    return Input(lambda rng: (std * rng.normal(size=dims)).astype("float32"), batch_axes)


def uniform(*dims: int, batch_axes: int = 1, low: float = 0.0, high: float = 1.0) -> Input:
    return Input(lambda rng: rng.uniform(low, high, dims).astype("float32"), batch_axes)


def bits(*dims: int, batch_axes: int = 1, probability: float = 0.5) -> Input:
    return Input(lambda rng: (rng.uniform(size=dims) < probability).astype("float32"), batch_axes)


def ids(count: int, *dims: int, batch_axes: int | None = None) -> Input:
    """Integers below `count`; all axes are batch axes unless `batch_axes` is given."""
    return Input(
        lambda rng: rng.integers(0, count, dims).astype("int32"), len(dims) if batch_axes is None else batch_axes
    )


def arrays_of(network: Network) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    return {name: each.draw(rng) for name, each in network.inputs.items()}


# --- the network -----------------------------------------------------------------------------------------------------


class Built(NamedTuple):
    """The loss in a context that holds its inputs and parameters; `weights` are their initial values."""

    loss: oc.Tensor
    params: Mapping[str, oc.Tensor]
    weights: Arrays

    def trained(self) -> Mapping[str, oc.Tensor]:
        """The parameters that the loss teaches, which are all but those it uses without a gradient."""
        return {path: p for path, p in self.params.items() if p.grad is not None}


def build(network: Network, ctx: oc.Context) -> Built:
    """The loss is a block, whose parameters have the paths that a twin uses."""
    arrays = arrays_of(network)
    placeholders = {
        name: oc.placeholder(name, b=array.shape[:axes], o=array.shape[axes:], dtype=array.dtype)
        for name, array in arrays.items()
        for axes in [network.inputs[name].batch_axes]
    }
    block = oc.op(network.loss)(label="network")
    loss = block(**placeholders)
    ctx.init(block)
    for name, array in arrays.items():
        ctx[placeholders[name]] = array
    return Built(loss, block.params, {path: ctx[p] for path, p in block.params.items()})


def compile_gradients(loss: oc.Tensor, ctx: oc.Context) -> oc.Routine:
    return ctx.compile(train.grad_update(loss))


def compile_step(network: Network, loss: oc.Tensor, ctx: oc.Context) -> oc.Routine:
    update = train.sgd(loss, network.learning_rate, momentum=MOMENTUM)
    return ctx.compile(oc.seq(train.grad_update(loss), update))


# --- its twin --------------------------------------------------------------------------------------------------------


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


class Trained(NamedTuple):
    """What training does: the loss of each step, the gradients of the first, and the changes of the weights."""

    losses: list[float]
    gradients: Arrays
    changes: Arrays


def train_reference(network: Network, weights: Arrays, dtype: Any) -> Trained:
    leaves = {path: torch.tensor(array, dtype=dtype, requires_grad=True) for path, array in weights.items()}
    tensors = {name: torch.tensor(array) for name, array in arrays_of(network).items()}
    inputs = {name: t.to(dtype) if t.is_floating_point() else t.long() for name, t in tensors.items()}
    optimizer = torch.optim.SGD(leaves.values(), network.learning_rate, momentum=MOMENTUM)
    losses: list[float] = []
    gradients: dict[str, Array] = {}
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = network.reference(Weights(leaves), **inputs)
        loss.backward()
        gradients = gradients or {path: p.grad.numpy().copy() for path, p in leaves.items() if p.grad is not None}
        optimizer.step()
        losses.append(loss.item())
    return Trained(losses, gradients, {path: leaves[path].detach().numpy() - weights[path] for path in gradients})


class Reference(NamedTuple):
    """The twin in float64, and the tolerances of its arrays."""

    exact: Trained
    gradient_tolerances: Mapping[str, float]
    change_tolerances: Mapping[str, float]


@lru_cache(maxsize=1)  # of large networks no more than one fits
def reference_of(name: str) -> Reference:
    network = NETWORKS[name]
    with oc.Context("numpy") as ctx:
        weights = build(network, ctx).weights
    exact = train_reference(network, weights, torch.float64)
    tolerances = [dict.fromkeys(exact.gradients, TOLERANCE) for _ in range(2)]
    for relative, dtype in (0.0, torch.float32), (PERTURBATION, torch.float64), (-PERTURBATION, torch.float64):
        inexact = train_reference(network, perturbed(weights, relative), dtype)
        for tolerance, arrays, want in zip(tolerances, inexact[1:], exact[1:], strict=True):
            for path, error in errors(arrays, want).items():
                tolerance[path] = max(tolerance[path], min(4 * error, MAX_TOLERANCE))
    return Reference(exact, *tolerances)


def perturbed(weights: Arrays, relative: float) -> Arrays:
    """The weights, each changed at random by up to a part of itself; the opposite part gives the opposite change."""
    rng = np.random.default_rng(11)
    return {path: w * (1 + relative * rng.uniform(-1, 1, w.shape)) for path, w in weights.items()}


# --- comparison ------------------------------------------------------------------------------------------------------


def errors(arrays: Arrays, exact: Arrays) -> dict[str, float]:
    """The largest error of each array, relative to its largest element."""
    assert arrays.keys() == exact.keys()
    floor = NOISE_FLOOR * max(_magnitude(array) for array in exact.values())
    return {path: _magnitude(arrays[path] - want) / max(_magnitude(want), floor) for path, want in exact.items()}


def _magnitude(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0))


def assert_close(arrays: Arrays, exact: Arrays, tolerances: Mapping[str, float]) -> None:
    for path, array in arrays.items():
        assert array.shape == exact[path].shape, path
        infinite = np.count_nonzero(~np.isfinite(array))
        assert not infinite, f"{path}: {infinite} of {array.size} elements are not finite"
    error = errors(arrays, exact)
    wrong = [f"{path}: {e:.1e} > {tolerances[path]:.1e}" for path, e in error.items() if e > tolerances[path]]
    assert not wrong, f"{len(wrong)} of {len(error)} are off by more than their tolerance: {', '.join(wrong)}"


def check_gradients(name: str, backend: str, threads: int) -> None:
    """The loss and all gradients, from a routine that computes nothing else."""
    reference = reference_of(name)
    with oc.Context(backend, threads=threads) as ctx:
        built = build(NETWORKS[name], ctx)
        compile_gradients(built.loss, ctx)()
        np.testing.assert_allclose(ctx[built.loss], reference.exact.losses[0], rtol=TOLERANCE)
        gradients = {path: ctx[p.grad] for path, p in built.trained().items()}
    assert_close(gradients, reference.exact.gradients, reference.gradient_tolerances)


def check_steps(name: str, backend: str, threads: int) -> None:
    """The losses of compiled training steps, and what they make of the weights."""
    reference = reference_of(name)
    with oc.Context(backend, threads=threads) as ctx:
        built = build(NETWORKS[name], ctx)
        step = compile_step(NETWORKS[name], built.loss, ctx)
        losses = []
        for _ in range(STEPS):
            step()
            losses.append(float(ctx[built.loss]))
        changes = {path: ctx[p] - built.weights[path] for path, p in built.trained().items()}
    np.testing.assert_allclose(losses, reference.exact.losses, rtol=TOLERANCE)
    assert_close(changes, reference.exact.changes, reference.change_tolerances)


def selection(chosen: str, budget: float) -> Iterable[str]:
    """The names that `chosen` lists, `all`, or by default the cheapest networks that take `budget` seconds together."""
    if chosen == "all":
        return NETWORKS
    if chosen:
        return chosen.replace(",", " ").split()
    names, total = [], 0.0
    for name in sorted(NETWORKS, key=lambda name: NETWORKS[name].seconds):
        total += NETWORKS[name].seconds
        if total <= budget:
            names.append(name)
    return names

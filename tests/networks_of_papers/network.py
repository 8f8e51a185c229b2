"""What a network is: its random inputs, its loss in ocannl, and the same loss in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import ocannl as oc

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


class Input(NamedTuple):
    """A random array of a network; the first `batch_axes` of its axes are batch axes."""

    draw: Callable[[np.random.Generator], Array]
    batch_axes: int


class Network(NamedTuple):
    """`loss` maps placeholders to the loss, `reference` maps weights and PyTorch tensors to the same number.

    `seconds` is the time that all tests of this network take, by which the default selection is made.
    """

    inputs: Mapping[str, Input]
    learning_rate: float
    seconds: float
    loss: Callable[..., oc.Tensor]
    reference: Callable[..., Any]


NETWORKS: dict[str, Network] = {}


def network(*, seconds: float, learning_rate: float, **inputs: Input) -> Callable[[Callable], Callable]:
    """Declares a network by a function that returns its `loss` and its `reference`."""

    def declare(define: Callable[[], tuple[Callable, Callable]]) -> Callable:
        NETWORKS[define.__name__] = Network(inputs, learning_rate, seconds, *define())
        return define

    return declare


def selection(chosen: str, budget: float) -> tuple[str, ...]:
    """The names in `chosen`, or `all`, or if it is empty the cheapest networks that take `budget` seconds together."""
    if chosen:
        return tuple(NETWORKS) if chosen == "all" else tuple(chosen.replace(",", " ").split())
    names, total = [], 0.0
    for name in sorted(NETWORKS, key=lambda name: NETWORKS[name].seconds):
        total += NETWORKS[name].seconds
        if total <= budget:
            names.append(name)
    return tuple(names)


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
    return {name: operand.draw(rng) for name, operand in network.inputs.items()}


# --- in a context ----------------------------------------------------------------------------------------------------


class Built(NamedTuple):
    """The loss in a context that holds its inputs and parameters."""

    ctx: oc.Context
    loss: oc.Tensor
    params: Mapping[str, oc.Tensor]

    def trained(self) -> Mapping[str, oc.Tensor]:
        """The parameters that the loss depends on, but those it uses without a gradient."""
        used = set(self.loss.params.values())
        return {path: p for path, p in self.params.items() if p in used and p.grad is not None}

    def weights(self) -> Arrays:
        return {path: self.ctx[p] for path, p in self.params.items()}


def build(network: Network, ctx: oc.Context) -> Built:
    """The loss is that of a block, whose parameters have the paths that the twin uses."""
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
    return Built(ctx, loss, block.params)

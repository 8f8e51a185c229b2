"""A row of a table of layers beside PyTorch's modules, and the weights of a module in the layout of ocannl."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ocannl as oc

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One layer or network in both languages.

    ours    returns a block
    theirs  returns a module, for operands of these sizes
    sizes   of the operand, batch first and channels last; each is tried
    ids     the operand holds ids below this number; 0 for real numbers
    batch   the number of batch axes of the operand
    more    the number of further batch axes of the result
    rate    of the training steps
    """

    name: str
    ours: Callable[[], oc.Block]
    theirs: Callable[[Sizes], Any]
    sizes: tuple[Sizes, ...]
    ids: int = 0
    batch: int = 1
    more: int = 0
    rate: float = 0.1

    def operand(self, sizes: Sizes) -> Array:
        rng = np.random.default_rng(len(self.name))
        return rng.integers(0, self.ids, sizes) if self.ids else rng.normal(size=sizes)


def randomized(module: Any) -> Any:
    """The module as float64, with other values than the initial ones of norms."""
    torch.manual_seed(1)
    module = module.double()
    for name, t in module.state_dict().items():
        if name.endswith("running_var"):
            t.uniform_(0.5, 2.0)
        elif t.is_floating_point() and t.dim() == 1:
            t.add_(0.3 * torch.randn_like(t))
    return module


def pairs(block: oc.Block, module: Any) -> Iterator[tuple[oc.Tensor, Any]]:
    """The parameters and states of a block, each with the tensor of the module: of both kinds, in the order of
    creation here and of registration there."""
    parameters = [(part, t) for part in module.modules() for t in part.parameters(recurse=False)]
    statistics = [
        (part, t) for part in module.modules() for t in part.buffers(recurse=False) if t.is_floating_point()
    ]
    for ours, theirs in ((block.params, parameters), (block.states, statistics)):
        for t, (part, tensor) in zip(ours.values(), theirs, strict=True):
            yield t, lambda p=tensor, part=part, t=t, grad=False: arranged(p.grad if grad else p, part, t)


def arranged(tensor: Any, part: Any, t: oc.Tensor) -> Array:
    """An array of a module, in the layout of the tensor here."""
    array = tensor.detach().numpy()
    kind = type(part).__name__
    if kind.startswith("ConvTranspose") and array.ndim > 1:
        return array.transpose(*range(2, array.ndim), 0, 1)
    is_kernel = kind.startswith("Conv") or (kind == "ParameterList" and array.ndim == 4)  # Unpacked parts have no types
    if is_kernel and array.ndim > 1 and len(t.dims) == array.ndim:
        return array.transpose(*range(2, array.ndim), 1, 0)
    if len(t.dims) == array.ndim:
        return array
    if kind.startswith("Conv"):  # a depthwise kernel
        return array.transpose(*range(2, array.ndim), 1, 0)[..., 0, :]
    units, *spatial, channels = t.dims  # a dense layer after a flattened image
    return np.moveaxis(array.reshape(units, channels, *spatial), 1, -1)


class ChannelsLast(torch.nn.Module):  # type: ignore[misc]
    """A module of images, for operands with channels last."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        y = self.module(x.movedim(-1, 1))
        return y.movedim(1, -1) if y.dim() > 2 else y

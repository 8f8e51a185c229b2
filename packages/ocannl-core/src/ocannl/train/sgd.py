"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code
from ocannl.train.optimizer import Group, Parameter, optimizer_code
from ocannl.train.parameters import Trained
from ocannl.train.rates import Rate


def sgd(
    loss: Tensor, learning_rate: Rate, *, params: Trained = None, groups: Iterable[Group] = (), momentum: float = 0.0,
    weight_decay: float = 0.0, nesterov: bool = False,
) -> Code:  # fmt: skip
    """A step of stochastic gradient descent from the current gradients of `loss`.

    It updates the parameters that these gradients reach, or `params`: a block, some of the parameters, or a predicate
    of path and parameter. The learning rate is a number, a tensor without axes, whose code is part of the step, or a
    schedule. `groups` are mappings with the `params` of a group, and those options that differ in it, as in
    `[{"params": head, "learning_rate": 0.01, "weight_decay": 0.0}]`.

    Source: Sutskever, Martens, Dahl, Hinton 2013, in the variant of PyTorch.
    """
    options = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
    return optimizer_code("sgd", _sgd, loss, learning_rate, params, groups, options)


def _sgd(p: Parameter, *, momentum: float, weight_decay: float, nesterov: bool) -> None:
    delta = p.gradient(weight_decay)
    if momentum:
        velocity = p.state("momentum")
        velocity[...] = momentum * velocity + delta
        delta = delta + momentum * velocity if nesterov else velocity
    p.descend(lambda rate, d: rate * d, delta)

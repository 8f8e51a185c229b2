"""Optimizers that divide each gradient by the root of a sum or average of its squares: RMSprop and Adagrad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import sqrt
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.record.code import Code
from ocannl.train.optimizer import Group, Parameter, Scalars, optimizer_code
from ocannl.train.parameters import Trained
from ocannl.train.rates import Rate


def rmsprop(
    loss: Tensor, learning_rate: Rate = 1e-2, *, params: Trained = None, groups: Iterable[Group] = (),
    alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0, weight_decay: float = 0.0, centered: bool = False,
) -> Code:  # fmt: skip
    """An RMSprop update: divides gradients by the root of a moving average of their squares, or, `centered`, by their
    standard deviation. `alpha` is the weight of the past in the average.

    `params`, `groups` and the learning rate are those of `train.sgd`.

    Source: Tieleman, Hinton 2012; Graves 2013, section 4.2, for the centered form; in the variant of PyTorch.
    """
    options = {"alpha": alpha, "eps": eps, "momentum": momentum, "weight_decay": weight_decay, "centered": centered}
    return optimizer_code("rmsprop", _rmsprop, loss, learning_rate, params, groups, options)


def adagrad(
    loss: Tensor, learning_rate: Rate = 1e-2, *, params: Trained = None, groups: Iterable[Group] = (),
    learning_rate_decay: float = 0.0, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
) -> Code:  # fmt: skip
    """An Adagrad update: divides gradients by the root of the sum of all their squares so far.

    `params`, `groups` and the learning rate are those of `train.sgd`. Step `t` multiplies the rate by
    `1 / (1 + (t - 1) * learning_rate_decay)`.

    Source: Duchi, Hazan, Singer 2011, in the variant of PyTorch.
    """
    options = {
        "learning_rate_decay": learning_rate_decay, "weight_decay": weight_decay,
        "initial_accumulator_value": initial_accumulator_value, "eps": eps,
    }  # fmt: skip
    return optimizer_code("adagrad", _adagrad, loss, learning_rate, params, groups, options, _decayed_rate)


def _rmsprop(
    p: Parameter, *, alpha: float, eps: float, momentum: float, weight_decay: float, centered: bool
) -> None:  # fmt: skip
    gradient, square = p.gradient(weight_decay), p.state("square")
    square[...] = cellwise("rmsprop_square", lambda s, g: alpha * s + (1 - alpha) * g * g, square, gradient)
    averages = [square]
    if centered:
        mean = p.state("mean")
        mean[...] = cellwise("rmsprop_mean", lambda m, g: alpha * m + (1 - alpha) * g, mean, gradient)
        averages.append(mean)

    def normalized(g: Term, s: Term, *m: Term) -> Term:
        return g / (sqrt(s - m[0] * m[0] if m else s) + eps)

    if not momentum:
        p.descend(lambda rate, *xs: rate * normalized(*xs), gradient, *averages)
        return
    velocity = p.state("momentum")
    velocity[...] = cellwise(
        "rmsprop_momentum", lambda v, *xs: momentum * v + normalized(*xs), velocity, gradient, *averages
    )
    p.descend(lambda rate, v: rate * v, velocity)


def _decayed_rate(scalars: Scalars, *, learning_rate_decay: float, **_: object) -> Mapping[str, Tensor | float]:
    if not learning_rate_decay:
        return {"step": scalars.rate}
    steps, step = scalars.state("steps"), scalars.state("step")
    step[...] = scalars.rate / (1 + steps * learning_rate_decay)
    steps += 1
    return {"step": step}


def _adagrad(
    p: Parameter, *, learning_rate_decay: float, weight_decay: float, initial_accumulator_value: float, eps: float,
    step: Tensor | float,
) -> None:  # fmt: skip
    gradient, total = p.gradient(weight_decay), p.state("total", initial_accumulator_value)
    total[...] = cellwise("adagrad_total", lambda s, g: s + g * g, total, gradient)
    p.descend(lambda rate, g, s: rate * g / (sqrt(s) + eps), gradient, total, factor=step)

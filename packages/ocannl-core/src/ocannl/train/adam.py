"""The optimizers Adam, AdamW and NAdam, which scale steps by moving averages of gradients and of their squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import sqrt
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code
from ocannl.train.optimizer import Betas, Group, Parameter, Scalars, optimizer_code
from ocannl.train.parameters import Trained
from ocannl.train.rates import Rate


def adam(
    loss: Tensor, learning_rate: Rate = 1e-3, *, params: Trained = None, groups: Iterable[Group] = (),
    betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
) -> Code:  # fmt: skip
    """An Adam update; `weight_decay` adds L2 regularization to the gradients.

    `params`, `groups` and the learning rate are those of `train.sgd`.

    Source: Kingma, Ba 2015, in the variant of PyTorch.
    """
    options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
    return optimizer_code("adam", _adam, loss, learning_rate, params, groups, options, bias_corrections)


def adamw(
    loss: Tensor, learning_rate: Rate = 1e-3, *, params: Trained = None, groups: Iterable[Group] = (),
    betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
) -> Code:  # fmt: skip
    """An Adam update with decoupled weight decay, which shrinks the parameters independently of their gradients.

    `params`, `groups` and the learning rate are those of `train.sgd`.

    Source: Loshchilov, Hutter 2019, in the variant of PyTorch.
    """
    options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
    return optimizer_code("adamw", adamw_rule, loss, learning_rate, params, groups, options, bias_corrections)


def nadam(
    loss: Tensor, learning_rate: Rate = 2e-3, *, params: Trained = None, groups: Iterable[Group] = (),
    betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
    decoupled_weight_decay: bool = False,
) -> Code:  # fmt: skip
    """An Adam update with Nesterov momentum.

    `params`, `groups` and the learning rate are those of `train.sgd`.

    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam", in the variant of PyTorch.
    """
    options = {
        "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        "decoupled_weight_decay": decoupled_weight_decay,
    }  # fmt: skip
    return optimizer_code("nadam", _nadam, loss, learning_rate, params, groups, options, _nesterov_factors)


# --- what parameters share -------------------------------------------------------------------------------------------


def average_weight(scalars: Scalars, name: str, beta: float) -> Tensor:
    """The bias correction `1 - beta**t`: the sum of the weights of an exponential moving average that starts at 0."""
    weight = scalars.state(name)
    weight[...] = beta * weight + (1 - beta)
    return weight


def bias_corrections(scalars: Scalars, *, betas: Betas, **_: object) -> Mapping[str, Tensor]:
    """The step size `rate / (1 - beta1**t)`, and the factor `1 / sqrt(1 - beta2**t)` of root mean squares."""
    first = average_weight(scalars, "mean_weight", betas[0])
    second = average_weight(scalars, "square_weight", betas[1])
    step, norm = scalars.state("step"), scalars.state("norm")
    step[...] = scalars.rate / first
    norm[...] = 1 / PRIMITIVES["sqrt"](second)
    return {"step": step, "norm": norm}


def _nesterov_factors(
    scalars: Scalars, *, betas: Betas, momentum_decay: float, **_: object
) -> Mapping[str, Tensor]:  # fmt: skip
    """The step sizes of the gradient and of the mean. Step `t` has momentum `beta1 * (1 - 0.96**(t * decay) / 2)`."""
    steps, product = scalars.state("steps"), scalars.state("momentum_product", init=1.0)
    gradient_step, mean_step, norm = (scalars.state(name) for name in ("gradient_step", "mean_step", "norm"))
    steps += 1
    momentum = betas[0] * (1 - 0.5 * 0.96 ** (steps * momentum_decay))
    following = betas[0] * (1 - 0.5 * 0.96 ** ((steps + 1) * momentum_decay))
    product *= momentum
    gradient_step[...] = scalars.rate * (1 - momentum) / (1 - product)
    mean_step[...] = scalars.rate * following / (1 - product * following)
    norm[...] = 1 / PRIMITIVES["sqrt"](average_weight(scalars, "square_weight", betas[1]))
    return {"gradient_step": gradient_step, "mean_step": mean_step, "norm": norm}


# --- updates of one parameter, in as few operations as possible: a model has many parameters -------------------------


def moments(p: Parameter, gradient: Tensor, betas: Betas) -> tuple[Tensor, Tensor]:
    """Updates the moving averages of the gradient and of its square."""
    mean, square = p.state("mean"), p.state("square")
    mean[...] = cellwise("adam_mean", lambda m, g: betas[0] * m + (1 - betas[0]) * g, mean, gradient)
    square[...] = cellwise("adam_square", lambda s, g: betas[1] * s + (1 - betas[1]) * g * g, square, gradient)
    return mean, square


def _adam(p: Parameter, *, betas: Betas, eps: float, weight_decay: float, step: Tensor, norm: Tensor) -> None:
    _descend(p, *moments(p, p.gradient(weight_decay), betas), eps, step, norm)


def adamw_rule(p: Parameter, *, betas: Betas, eps: float, weight_decay: float, step: Tensor, norm: Tensor) -> None:
    p.shrink(weight_decay)
    _descend(p, *moments(p, p.gradient(), betas), eps, step, norm)


def _descend(p: Parameter, mean: Tensor, square: Tensor, eps: float, step: Tensor, norm: Tensor) -> None:
    def change(step: Term, m: Term, s: Term, norm: Term) -> Term:
        return step * m / (sqrt(s) * p.converted(norm) + eps)

    p.descend(change, mean, square, norm, factor=step)


def _nadam(
    p: Parameter, *, betas: Betas, eps: float, weight_decay: float, momentum_decay: float, decoupled_weight_decay: bool,
    gradient_step: Tensor, mean_step: Tensor, norm: Tensor,
) -> None:  # fmt: skip
    gradient = p.gradient(0.0 if decoupled_weight_decay else weight_decay)
    if decoupled_weight_decay:
        p.shrink(weight_decay)
    mean, square = moments(p, gradient, betas)

    def change(gradient_step: Term, g: Term, m: Term, s: Term, mean_step: Term, norm: Term) -> Term:
        return (gradient_step * g + p.converted(mean_step) * m) / (sqrt(s) * p.converted(norm) + eps)

    p.descend(change, gradient, mean, square, mean_step, norm, factor=gradient_step)

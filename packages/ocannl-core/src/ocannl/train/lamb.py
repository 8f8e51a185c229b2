"""The optimizer LAMB, which scales the steps of Adam to the norm of each parameter."""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import sqrt
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code
from ocannl.train.adam import average_weight, moments
from ocannl.train.optimizer import Betas, Group, Parameter, Scalars, optimizer_code
from ocannl.train.parameters import Trained
from ocannl.train.rates import Rate

root, where = PRIMITIVES["sqrt"], PRIMITIVES["where"]


def lamb(
    loss: Tensor, learning_rate: Rate = 1e-3, *, params: Trained = None, groups: Iterable[Group] = (),
    betas: Betas = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.0,
) -> Code:  # fmt: skip
    """A LAMB update, for large batches: the step of Adam with weight decay, at the length of the parameter.

    `params`, `groups` and the learning rate are those of `train.sgd`.

    Source: You et al. 2020, "Large batch optimization for deep learning", algorithm 2, without a bound of the norm.
    """
    options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
    return optimizer_code("lamb", _lamb, loss, learning_rate, params, groups, options, _corrections)


def _corrections(scalars: Scalars, *, betas: Betas, **_: object) -> dict[str, Tensor]:
    inverse, norm = scalars.state("inverse"), scalars.state("norm")
    inverse[...] = 1 / average_weight(scalars, "mean_weight", betas[0])
    norm[...] = 1 / root(average_weight(scalars, "square_weight", betas[1]))
    return {"inverse": inverse, "norm": norm}


def _lamb(p: Parameter, *, betas: Betas, eps: float, weight_decay: float, inverse: Tensor, norm: Tensor) -> None:
    mean, square = moments(p, p.gradient(), betas)

    def step(w: Term, m: Term, s: Term, inverse: Term, norm: Term) -> Term:
        adam = p.converted(inverse) * m / (sqrt(s) * p.converted(norm) + eps)
        return adam + weight_decay * w if weight_decay else adam

    direction = cellwise("lamb_direction", step, p.tensor, mean, square, inverse, norm)
    length, size = root((p.tensor * p.tensor).sum()), root((direction * direction).sum())
    ratio = where((length > 0.0) & (size > 0.0), length / size, 1.0)
    p.descend(lambda rate, r, d: rate * r * d, ratio, direction)

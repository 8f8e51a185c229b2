"""The optimizer Lion, whose steps are signs."""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.elementwise import sign
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.record.code import Code
from ocannl.train.optimizer import Betas, Group, Parameter, optimizer_code
from ocannl.train.parameters import Trained
from ocannl.train.rates import Rate


def lion(
    loss: Tensor, learning_rate: Rate = 1e-4, *, params: Trained = None, groups: Iterable[Group] = (),
    betas: Betas = (0.9, 0.99), weight_decay: float = 0.0,
) -> Code:  # fmt: skip
    """A Lion update: a step of the rate in the direction of the sign of a moving average of gradients.

    Weight decay is decoupled. Rates are 3 to 10 times smaller than those of AdamW. `params`, `groups` and the learning
    rate are those of `train.sgd`.

    Source: Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2.
    """
    options = {"betas": betas, "weight_decay": weight_decay}
    return optimizer_code("lion", _lion, loss, learning_rate, params, groups, options)


def _lion(p: Parameter, *, betas: Betas, weight_decay: float) -> None:
    gradient, mean = p.gradient(), p.state("mean")
    p.shrink(weight_decay)

    def change(rate: Term | float, m: Term, g: Term) -> Term:
        step: Term = rate * sign(betas[0] * m + (1 - betas[0]) * g)
        return step

    p.descend(change, mean, gradient)
    mean[...] = cellwise("lion_mean", lambda m, g: betas[1] * m + (1 - betas[1]) * g, mean, gradient)

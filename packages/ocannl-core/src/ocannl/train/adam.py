"""Adam: steps scaled by running means of gradients and of their squares."""

from __future__ import annotations

from ocannl.base.errors import CodeError
from ocannl.ir.precision import float32, float64, promote
from ocannl.lang.core.leaves import companion, node
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.terms import Term, apply, convert
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.step import learned

sqrt = PRIMITIVES["sqrt"]
Betas = tuple[float, float]


def adam(
    loss: Tensor, learning_rate: float = 1e-3, *, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Code:  # fmt: skip
    """Adam over all parameters of `loss`, from the gradients that are there; `weight_decay` is part of the gradients.

    Source: Kingma, Ba 2015, as PyTorch has it.
    """
    return _adam(loss, learning_rate, betas, eps, weight_decay, 0.0, "adam")


def adamw(
    loss: Tensor, learning_rate: float = 1e-3, *, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> Code:  # fmt: skip
    """Adam whose `weight_decay` shrinks the parameters themselves, apart from the gradients.

    Source: Loshchilov, Hutter 2019, as PyTorch has it.
    """
    return _adam(loss, learning_rate, betas, eps, 0.0, learning_rate * weight_decay, "adamw")


def _adam(loss: Tensor, rate: float, betas: Betas, eps: float, decay: float, shrink: float, title: str) -> Code:
    if not all(0 <= beta < 1 for beta in betas):
        raise CodeError(f"each of the betas is at least 0 and less than 1, so {betas} are none")
    with cd() as weigh:
        first, second = _weight("adam_mean_weight", betas[0]), _weight("adam_square_weight", betas[1])
        step, norm = _number("adam_step"), _number("adam_norm")
        step[...] = rate / first
        norm[...] = 1 / sqrt(second)
    updates = [
        adam_one(p, step=step, norm=norm, betas=betas, eps=eps, decay=decay, shrink=shrink)
        for p in learned(loss)
    ]
    return titled(lambda: f"{loss.label} {title} update", seq(weigh, *updates))


def _weight(label: str, beta: float) -> Tensor:
    """The sum of the weights in a running mean, that is `1 - beta**t`: a mean that starts as 0 is too small by it."""
    weight = _number(label)
    weight[...] = beta * weight + (1 - beta)
    return weight


def _number(label: str) -> Tensor:
    return node(label, dtype=float64, batch=[], input=[], output=[])


@cd
def adam_one(
    p: Tensor, *, step: Tensor, norm: Tensor, betas: Betas, eps: float, decay: float, shrink: float
) -> None:
    """One parameter's update, in as few operations as there are: a model has many parameters."""
    kind = promote(p.dtype, float32)
    delta: Tensor = p.grad if not decay else p.grad + decay * p  # type: ignore[assignment]
    mean, square = companion("adam_mean", p, kind), companion("adam_square", p, kind)
    mean[...] = cellwise("adam_mean", lambda m, g: betas[0] * m + (1 - betas[0]) * g, mean, delta)
    square[...] = cellwise("adam_square", lambda s, g: betas[1] * s + (1 - betas[1]) * g * g, square, delta)
    if shrink:
        p *= 1 - shrink

    def change(step: Term, m: Term, s: Term, norm: Term) -> Term:
        return convert(step, kind) * m / (apply("sqrt", s) * convert(norm, kind) + eps)

    p -= cellwise("adam", change, step, mean, square, norm)

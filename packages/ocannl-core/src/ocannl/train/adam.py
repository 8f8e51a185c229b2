"""The optimizers Adam and AdamW."""

from __future__ import annotations

from ocannl.base.errors import CodeError
from ocannl.ir.precision import Precision, float32, float64, promote
from ocannl.lang.core.leaf_constructors import node, state_like
from ocannl.lang.core.symbolic_terms import Term, apply, convert
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.parameters import Trained, trainable_parameters
from ocannl.train.rates import Rate, check_numbers, rate_of

sqrt = PRIMITIVES["sqrt"]
Betas = tuple[float, float]


def adam(
    loss: Tensor, learning_rate: Rate = 1e-3, *, params: Trained = None, betas: Betas = (0.9, 0.999),
    eps: float = 1e-8, weight_decay: float = 0.0,
) -> Code:  # fmt: skip
    """An Adam update; `weight_decay` adds L2 regularization to the gradients.

    `params` and the learning rate are those of `train.sgd`.

    Source: Kingma, Ba 2015, in the variant of PyTorch.
    """
    return _adam(loss, params, learning_rate, betas, eps, weight_decay, 0.0, "adam")


def adamw(
    loss: Tensor, learning_rate: Rate = 1e-3, *, params: Trained = None, betas: Betas = (0.9, 0.999),
    eps: float = 1e-8, weight_decay: float = 1e-2,
) -> Code:  # fmt: skip
    """An Adam update with decoupled weight decay, which shrinks the parameters independently of their gradients.

    `params` and the learning rate are those of `train.sgd`.

    Source: Loshchilov, Hutter 2019, in the variant of PyTorch.
    """
    return _adam(loss, params, learning_rate, betas, eps, 0.0, weight_decay, "adamw")


def _adam(
    loss: Tensor, params: Trained, learning_rate: Rate, betas: Betas, eps: float, decay: float,
    decoupled_decay: float, title: str,
) -> Code:  # fmt: skip
    check_numbers(title, eps=eps, weight_decay=decoupled_decay if title == "adamw" else decay)
    if not all(0 <= beta < 1 for beta in betas):
        raise CodeError(f"betas must be numbers in [0, 1), not {betas}")
    code, rate = rate_of(learning_rate, title)
    with cd() as weigh:
        first, second = _weight("adam_mean_weight", betas[0]), _weight("adam_square_weight", betas[1])
        step, norm = _number("adam_step"), _number("adam_norm")
        step[...] = rate / first
        norm[...] = 1 / sqrt(second)
    updates = [
        adam_one(
            p, path=path, step=step, norm=norm, betas=betas, eps=eps, decay=decay, rate=rate,
            decoupled_decay=decoupled_decay,
        )
        for path, p in trainable_parameters(loss, params).items()
    ]
    return titled(lambda: f"{loss.label} {title} update", seq(code, weigh, *updates))


def _weight(label: str, beta: float) -> Tensor:
    """The bias correction `1 - beta**t`: the sum of the weights of an exponential moving average that starts at 0."""
    weight = _number(label)
    weight[...] = beta * weight + (1 - beta)
    return weight


def _number(label: str) -> Tensor:
    return node(label, dtype=float64, batch=[], input=[], output=[])


@cd
def adam_one(
    p: Tensor, *, path: str, step: Tensor, norm: Tensor, betas: Betas, eps: float, decay: float, rate: Tensor | float,
    decoupled_decay: float,
) -> None:  # fmt: skip
    """The update of one parameter, in as few operations as possible: a model has many parameters."""
    kind = promote(p.dtype, float32)
    delta: Tensor = p.grad if not decay else p.grad + decay * p  # type: ignore[assignment]
    mean, square = (state_like(f"adam_{moment}.{path}", p, kind) for moment in ("mean", "square"))
    mean[...] = cellwise("adam_mean", lambda m, g: betas[0] * m + (1 - betas[0]) * g, mean, delta)
    square[...] = cellwise("adam_square", lambda s, g: betas[1] * s + (1 - betas[1]) * g * g, square, delta)
    if decoupled_decay:
        _shrink(p, rate, decoupled_decay, kind)

    def change(step: Term, m: Term, s: Term, norm: Term) -> Term:
        return convert(step, kind) * m / (apply("sqrt", s) * convert(norm, kind) + eps)

    p -= cellwise("adam", change, step, mean, square, norm)


def _shrink(p: Tensor, rate: Tensor | float, decay: float, kind: Precision) -> None:
    if isinstance(rate, Tensor):
        p *= cellwise("shrink", lambda r: convert(1.0 - decay * r, kind), rate)
    else:
        p *= 1 - rate * decay

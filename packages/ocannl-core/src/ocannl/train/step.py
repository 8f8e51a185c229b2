"""One training step as code: gradients, then updates."""

from __future__ import annotations

from ocannl.base.errors import CodeError, DtypeError
from ocannl.ir.precision import float32, promote
from ocannl.lang.core.leaf_constructors import state_like
from ocannl.lang.core.symbolic_terms import convert
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.parameters import Trained, trainable_parameters
from ocannl.train.rates import Rate, check_numbers, rate_of


def grad_update(loss: Tensor, *, scale: Tensor | float | None = None) -> Code:
    """Zeroes gradients, runs forward, and backpropagates from a gradient of 1: computes the gradients of `loss`.

    A loss with several cells is summed. With `scale`, a number or a tensor of no axes, backprop starts from that
    gradient, so that small gradients of narrow types do not underflow, and gradients of parameters are divided by it.

    Raises: CodeError for a loss without a gradient; DtypeError when the gradients of parameters are too narrow for that
    division.
    """
    if not isinstance(loss, Tensor) or not loss.has_gradient:
        name = f"`{loss.label}`" if isinstance(loss, Tensor) else repr(loss)
        raise CodeError(f"{name} has no gradient: a loss must depend on a parameter and be built outside oc.no_grad()")
    assert loss.grad is not None
    with cd() as seed:
        loss.grad["=:"] = 1.0 if scale is None else scale
    divided = [] if scale is None else [_divide_gradient(p, scale) for p in trainable_parameters(loss).values()]
    code = seq(loss.forward, loss.zero_grads, seed, loss.backprop, *divided)
    return titled(lambda: f"{loss.label} grad update", code)


@cd
def _divide_gradient(p: Tensor, scale: Tensor | float) -> None:
    kind = p.grad.dtype  # type: ignore[union-attr]
    if kind.arithmetic is not kind:
        fix = f"hold the parameter in float32 and use {p.label}.astype(oc.{p.dtype}), or give grad_dtype=oc.float32"
        raise DtypeError(
            f"the gradient of `{p.label}` is of type {kind}: dividing it by the scale would underflow\n  fix  {fix}"
        )
    p.grad /= scale  # type: ignore[operator]


@cd
def sgd_one(
    p: Tensor, *, path: str, learning_rate: Tensor | float, momentum: float = 0.0, weight_decay: float = 0.0,
    nesterov: bool = False,
) -> None:  # fmt: skip
    """The update of one parameter. Source: Sutskever, Martens, Dahl, Hinton 2013, in the variant of PyTorch."""
    delta: Tensor = p.grad if not weight_decay else p.grad + weight_decay * p  # type: ignore[assignment]
    if momentum:
        velocity = state_like(f"sgd_momentum.{path}", p, promote(p.dtype, float32))
        velocity[...] = momentum * velocity + delta
        delta = delta + momentum * velocity if nesterov else velocity
    if not isinstance(learning_rate, Tensor):
        p -= learning_rate * delta
        return
    kind = promote(p.dtype, float32)
    p -= cellwise("sgd", lambda rate, d: convert(rate, kind) * d, learning_rate, delta)


def sgd(
    loss: Tensor, learning_rate: Rate, *, params: Trained = None, momentum: float = 0.0, weight_decay: float = 0.0,
    nesterov: bool = False,
) -> Code:  # fmt: skip
    """A step of stochastic gradient descent from the current gradients of `loss`.

    It updates the parameters that these gradients reach, or `params`: a block, or some of the parameters. The learning
    rate is a number, a tensor without axes, whose code is part of the step, or a schedule.
    """
    check_numbers("sgd", momentum=momentum, weight_decay=weight_decay)
    code, rate = rate_of(learning_rate, "sgd")
    updates = [
        sgd_one(p, path=path, learning_rate=rate, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        for path, p in trainable_parameters(loss, params).items()
    ]
    return titled(lambda: f"{loss.label} sgd update", seq(code, *updates))

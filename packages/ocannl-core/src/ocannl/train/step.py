"""One training step as code: gradients, then updates."""

from __future__ import annotations

from ocannl.base.errors import CodeError, DtypeError
from ocannl.ir.precision import float32, promote
from ocannl.lang.core.leaves import companion
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd


def grad_update(loss: Tensor, *, scale: Tensor | float | None = None) -> Code:
    """Zero gradients, forward, backprop from a gradient of 1: afterwards every parameter's gradient is that of `loss`.

    A loss with several cells counts as their sum. Backprop from a gradient of `scale` instead, a number or a tensor of
    no axes, keeps small gradients of narrow types from becoming zero on the way; those of parameters are divided by it.
    Raises: DtypeError where gradients of parameters are too narrow to be divided again.
    """
    if not isinstance(loss, Tensor) or not loss.has_gradient:
        name = f"`{loss.label}`" if isinstance(loss, Tensor) else repr(loss)
        raise CodeError(f"{name} has no gradient: a loss depends on a parameter, and is built outside oc.no_grad()")
    assert loss.grad is not None
    with cd() as seed:
        loss.grad["=:"] = 1.0 if scale is None else scale
    divided = [] if scale is None else [_divided(p, scale) for p in learned(loss)]
    code = seq(loss.forward, loss.zero_grads, seed, loss.backprop, *divided)
    return titled(lambda: f"{loss.label} grad update", code)


def learned(loss: Tensor) -> list[Tensor]:
    """The parameters of the loss that have a gradient; those made inside `oc.no_grad()` have none."""
    return [p for p in loss.params.values() if p.has_gradient]


@cd
def _divided(p: Tensor, scale: Tensor | float) -> None:
    kind = p.grad.dtype  # type: ignore[union-attr]
    if kind.arithmetic is not kind:
        fix = f"hold the parameter in float32 and use {p.label}.astype(oc.{p.dtype}), or give grad_dtype=oc.float32"
        raise DtypeError(
            f"the gradient of `{p.label}` is of type {kind}: what is divided by the scale becomes 0 again\n  fix  {fix}"
        )
    p.grad /= scale  # type: ignore[operator]


@cd
def sgd_one(
    p: Tensor, *, learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False
) -> None:
    """One parameter's update. Source: Sutskever, Martens, Dahl, Hinton 2013, as PyTorch's SGD has it."""
    delta: Tensor = p.grad if not weight_decay else p.grad + weight_decay * p  # type: ignore[assignment]
    if momentum:
        velocity = companion("sgd_momentum", p, promote(p.dtype, float32))
        velocity[...] = momentum * velocity + delta
        delta = delta + momentum * velocity if nesterov else velocity
    p -= learning_rate * delta


def sgd(
    loss: Tensor, learning_rate: float, *, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False
) -> Code:
    """Stochastic gradient descent over the parameters of `loss` that have gradients, from what these hold."""
    rate = learning_rate
    updates = [
        sgd_one(p, learning_rate=rate, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        for p in learned(loss)
    ]
    return titled(lambda: f"{loss.label} sgd update", seq(*updates))

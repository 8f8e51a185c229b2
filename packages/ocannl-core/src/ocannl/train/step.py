"""The gradients of a loss, as code."""

from __future__ import annotations

from ocannl.base.errors import CodeError, DtypeError
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import training
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.parameters import gradient_of, trainable_parameters


def grad_update(loss: Tensor, *, scale: Tensor | float | None = None) -> Code:
    """Zeroes gradients, runs forward, and backpropagates from a gradient of 1: computes the gradients of `loss`.

    The code is for training: dropout is active, and states of blocks are updated. A loss with several cells is summed.
    With `scale`, a number or a tensor of no axes, backprop starts from that gradient, so that small gradients of narrow
    types do not underflow, and gradients of parameters are divided by it.

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
    with training(True):
        code = seq(loss.forward, loss.zero_grads, seed, loss.backprop, *divided)
    return titled(lambda: f"{loss.label} grad update", code)


@cd
def _divide_gradient(p: Tensor, scale: Tensor | float) -> None:
    gradient = gradient_of(p)
    kind = gradient.dtype
    if kind.arithmetic is not kind:
        fix = f"hold the parameter in float32 and use {p.label}.astype(oc.{p.dtype}), or give grad_dtype=oc.float32"
        raise DtypeError(
            f"the gradient of `{p.label}` is of type {kind}: dividing it by the scale would underflow\n  fix  {fix}"
        )
    gradient /= scale

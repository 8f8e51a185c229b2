"""Clipping of gradients: code that stands between `train.grad_update` and an optimizer."""

from __future__ import annotations

from ocannl.base.errors import ArgumentError
from ocannl.ir.precision import float32, promote
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import maximum, minimum
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code
from ocannl.lang.record.recorder import cd
from ocannl.train.parameters import Trained, trainable_parameters

_EPS = 1e-6  # as in PyTorch, so that gradients of 0 stay 0


def clip_grad_value(loss: Tensor, clip_value: float, *, params: Trained = None) -> Code:
    """Limits each cell of the gradients of parameters to `[-clip_value, clip_value]`.

    `params` are those of `train.sgd`.
    """
    _check_limit("clip_grad_value", "clip_value", clip_value)
    with cd("clip gradients") as code:
        for p in trainable_parameters(loss, params).values():
            gradient = p.grad
            assert gradient is not None
            gradient[...] = cellwise("clip", lambda g: maximum(minimum(g, clip_value), -clip_value), gradient)
    return code


def clip_grad_norm(loss: Tensor, max_norm: float, *, params: Trained = None) -> Code:
    """Scales the gradients of all parameters together, so that their Euclidean norm is at most `max_norm`.

    `params` are those of `train.sgd`.

    Source: Pascanu, Mikolov, Bengio 2013, "On the difficulty of training recurrent neural networks", in the variant of
    PyTorch.
    """
    _check_limit("clip_grad_norm", "max_norm", max_norm)
    gradients = [p.grad for p in trainable_parameters(loss, params).values() if p.grad is not None]
    with cd("clip gradients") as code:
        squares = [
            (g.astype(kind) if g.dtype is not kind else g) for g in gradients for kind in [promote(g.dtype, float32)]
        ]
        total = sum((g * g).sum() for g in squares)
        factor = max_norm / (PRIMITIVES["sqrt"](total) + _EPS)
        for g in gradients:
            g *= cellwise("clip", lambda f: minimum(f, 1.0), factor)
    return code


def _check_limit(title: str, name: str, value: object) -> None:
    if is_bool(value) or not is_number(value) or not value > 0:  # type: ignore[operator]
        raise ArgumentError(f"train.{title}: `{name}` is a positive number, not {value!r}"[:200])

"""Dense layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def linear(x: Tensor, *, width: int | None = None, bias: bool = True, init: object = None) -> Tensor:
    """`w @ x + b`: a dense layer from all output axes of `x` to `width` units, by default as many as its use requires.

    Shapes: `...|..i.. => ...|width`; `w` is `..i.. -> width`, `b` is `width`.
    Init:   `w` by `init`, `oc.xavier()` by default; `b` 0.
    """
    row = None if width is None else [width]
    w = oc.param(oc.xavier() if init is None else init, o=row)
    return w @ x + oc.param("b", 0.0, o=row) if bias else w @ x


@layer
def mlp(
    x: Tensor, *, widths: Sequence[int], activation: Callable[[Tensor], Tensor] = oc.relu, rate: float = 0.0,
    bias: bool = True, init: object = None,
) -> Tensor:  # fmt: skip
    """A multilayer perceptron: dense layers of `widths` units, with `activation` and dropout at `rate` between them.

    Shapes: `...|..i.. => ...|widths[-1]`.
    Init:   that of `nn.linear`.
    """
    *hidden, last = widths
    for width in hidden:
        x = activation(linear(x, width=width, bias=bias, init=init))
        x = oc.dropout(x, rate) if rate else x
    return linear(x, width=last, bias=bias, init=init)

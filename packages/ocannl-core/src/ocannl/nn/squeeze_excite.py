"""Squeeze and excitation: channels weighted by what all of them contain."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer
from ocannl.nn.linear import linear
from ocannl.nn.pooling import global_avg_pool


@layer
def squeeze_excite(
    x: Tensor, *, width: int, activation: Callable[[Tensor], Tensor] = oc.relu,
    gate: Callable[[Tensor], Tensor] = oc.sigmoid,
) -> Tensor:  # fmt: skip
    """`x` times weights of its channels: the means of all channels, through a dense layer of `width` units,
    `activation`, a dense layer of as many units as channels, and `gate`.

    Shapes: `...|..s.., c`.
    Init:   that of `nn.linear`.
    Source: Hu, Shen, Sun 2018.
    """
    squeezed = activation(linear(global_avg_pool(x), width=width))
    return oc.einsum("...|..s.., c; ...|c => ...|..s.., c", x, gate(linear(squeezed)))

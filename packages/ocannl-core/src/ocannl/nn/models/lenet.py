"""LeNet-5."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.lang.ops.windows import Padding
from ocannl.nn.convolutions import conv2d
from ocannl.nn.layer import layer
from ocannl.nn.linear import mlp


@layer
def lenet(
    x: Tensor, *, classes: int = 10, padding: Padding = 2, activation: Callable[[Tensor], Tensor] = oc.tanh
) -> Tensor:
    """LeNet-5: two convolutions with mean pooling, and three dense layers.

    Shapes: `...|28, 28, c => ...|classes`, or `...|32, 32, c` with `padding=0`, and other sizes.
    Source: LeCun, Bottou, Bengio, Haffner 1998; the pooling without weights, the last layer dense.
    """
    x = oc.avg_pool2d(activation(conv2d(x, channels=6, window=5, padding=padding)), 2)
    x = oc.avg_pool2d(activation(conv2d(x, channels=16, window=5)), 2)
    return mlp(x, widths=[120, 84, classes], activation=activation)

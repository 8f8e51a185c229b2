"""Dropout as a layer."""

from __future__ import annotations

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def dropout(x: Tensor, *, rate: float = 0.5) -> Tensor:
    """In training, 0 with probability `rate`, and `x / (1 - rate)` elsewhere; in inference `x`: `oc.dropout`.

    Shapes: those of `x`.
    Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014.
    """
    return oc.dropout(x, rate)

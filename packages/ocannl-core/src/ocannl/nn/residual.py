"""Residual connections."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def residual(
    x: Tensor, *, function: Callable[[Tensor], Tensor], shortcut: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """`function(x) + x`, or with a shortcut, such as a projection, `function(x) + shortcut(x)`.

    Source: He, Zhang, Ren, Sun 2016.
    """
    return function(x) + (x if shortcut is None else shortcut(x))

"""Global pooling: reductions over all spatial axes. Pooling by windows has no parameters: `oc.max_pool2d`."""

from __future__ import annotations

from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def global_avg_pool(x: Tensor) -> Tensor:
    """The mean of each channel over all spatial axes. Shapes: `...|..s.., c => ...|c`."""
    return x.mean("...|..s.., c => ...|c")


@layer
def global_max_pool(x: Tensor) -> Tensor:
    """The maximum of each channel over all spatial axes. Shapes: `...|..s.., c => ...|c`."""
    return x.max("...|..s.., c => ...|c")

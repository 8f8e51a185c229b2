"""The operations that are functions: every row of the registry that is not written otherwise.

Their types are in the stub beside this file, which is made from the table of operations.
"""

from __future__ import annotations

from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.ops import (
    axis_walks,
    casts,
    concat,
    convolution,
    einsum,
    elementwise,
    index_tensors,
    indexing,
    linalg,
    primitives,
    reductions,
    sampling,
    scans,
    softmax,
    threefry,
)
from ocannl.lang.ops.methods import attach

MADE_IN = (
    axis_walks, casts, concat, convolution, einsum, elementwise, index_tensors, indexing, linalg, primitives,
    reductions, sampling, scans, softmax, threefry,
)  # fmt: skip
"""The modules that fill the registry."""

OTHERWISE = {
    "all", "any", "mean", "round", "sum", "largest", "smallest",  # methods: the names belong to Python
    "max", "min",  # maximum, minimum
    "slice", "transpose",  # x[n], x.T
}  # fmt: skip



def _is_public(name: str) -> bool:
    """Parts of other operations end in an underscore, as do primitives that are words of Python."""
    return name not in OTHERWISE and (name in primitives.PRIMITIVES or not name.endswith("_"))


__all__ = sorted(filter(_is_public, REGISTRY))
globals().update({name: REGISTRY[name] for name in __all__})
attach(REGISTRY)

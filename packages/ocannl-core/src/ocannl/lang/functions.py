"""The operations that are functions: every row of the registry that is not written otherwise.

Their types are in the stub beside this file, which is made from the table of operations.
"""

from __future__ import annotations

from ocannl.lang import (
    along,
    casts,
    iota,
    joining,
    matrices,
    operations,
    picking,
    pointwise,
    primitives,
    reductions,
    running,
    sampling,
    softmax,
    threefry,
    windows,
)
from ocannl.lang.methods import attach
from ocannl.lang.operators import REGISTRY

MADE_IN = (
    along, casts, iota, joining, matrices, operations, picking, pointwise, primitives, reductions, running, sampling,
    softmax, threefry, windows,
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

"""Functions that NumPy lacks, evaluated elementwise by the standard library in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """The function on arrays; results have the type of the operand."""
    compute = np.frompyfunc(function, 1, 1)

    def call(x: Array) -> Array:
        return np.asarray(compute(x)).astype(np.asarray(x).dtype)

    return call


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or a huge argument
        return math.inf


erf = elementwise(math.erf)
erfc = elementwise(math.erfc)
lgamma = elementwise(_lgamma)

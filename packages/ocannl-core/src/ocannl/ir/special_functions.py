"""Functions that NumPy lacks, evaluated elementwise in float64 by the C library."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """The function on arrays; results have the type of the operand."""
    compute = np.frompyfunc(function, 1, 1)

    def call(x: Array) -> Array:
        return np.asarray(compute(x)).astype(np.asarray(x).dtype)

    return call


def _log_gamma() -> Callable[[float], float]:
    """The function of the C library, or else that of Python, which is less accurate close to 1 and 2."""
    try:
        function = ctypes.CDLL("ucrtbase" if os.name == "nt" else None).lgamma
    except (OSError, AttributeError):
        return _log_gamma_of_python
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
    return function


def _log_gamma_of_python(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or a huge argument
        return math.inf


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
lgamma = _elementwise(_log_gamma())

"""NumPy functions on stacks of matrices, shared by the host functions of linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ocannl.base.errors import Unsupported

Array = np.ndarray[Any, Any]


def in_lapack_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Converts the array arguments to the types that LAPACK computes in: float32, or float64 for that and integers."""

    @wraps(function)
    def call(*arrays: Array) -> Any:
        return function(*map(_converted, arrays))

    return call


def _converted(array: Array) -> Array:
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def transposed(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


def symmetric_part(a: Array) -> Array:
    return (a + transposed(a)) / 2


def sum_to(a: Array, shape: tuple[int, ...]) -> Array:
    """Sums over the axes along which an operand of this shape was broadcast."""
    a = a.sum(tuple(range(a.ndim - len(shape))))
    return np.asarray(a.sum(tuple(n for n, size in enumerate(shape) if size == 1 != a.shape[n]), keepdims=True))


def lower_half(a: Array) -> Array:
    """The lower triangle, with half of the diagonal."""
    half = np.tril(a)
    diagonal = np.einsum("...ii->...i", half)  # a view
    diagonal /= 2
    return half


def scipy_linalg(purpose: str) -> Any:
    """The module `scipy.linalg`. Raises: Unsupported when SciPy is not installed."""
    try:
        import scipy.linalg
    except ImportError:
        raise Unsupported(f'{purpose} needs SciPy; run: pip install "ocannl-core[linalg]"') from None
    return scipy.linalg

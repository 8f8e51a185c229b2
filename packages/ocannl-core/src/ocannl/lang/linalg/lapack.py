"""LAPACK by SciPy for large matrices, where it is faster than NumPy, and by NumPy for all others.

All functions take stacks of matrices, like those of `numpy.linalg`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ocannl.lang.linalg.arrays import Array, transposed

LARGE = 64
"""From this size on, SciPy is called for each matrix."""


def routines(a: Array, *names: str) -> list[Any] | None:
    """The LAPACK routines for the type of a large matrix; None for small matrices and without SciPy."""
    if min(a.shape[-2:]) < LARGE:
        return None
    try:
        from scipy.linalg import get_lapack_funcs
    except ImportError:
        return None
    return list(get_lapack_funcs(names, dtype=a.dtype))


def solve(a: Array, b: Array) -> Array:
    """The solution of `a @ x = b`. The stacks broadcast. Raises: LinAlgError for a singular matrix."""
    kind = np.result_type(a, b)
    a, b = a.astype(kind, copy=False), b.astype(kind, copy=False)
    functions = routines(a, "gesv")
    if functions is None:
        return np.asarray(np.linalg.solve(a, b))
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    matrices, sides = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b))
    out = np.empty(sides.shape, kind)
    for at in np.ndindex(stack):
        _, _, out[at], info = functions[0](matrices[at], sides[at])
        _refuse(info, "Singular matrix")
    return out


def inv(a: Array) -> Array:
    """The inverse. Raises: LinAlgError for a singular matrix."""
    if routines(a) is None:
        return np.asarray(np.linalg.inv(a))
    return solve(a, np.eye(a.shape[-1], dtype=a.dtype))


def cholesky(a: Array) -> Array:
    """The lower triangular factor. Raises: LinAlgError for a matrix that is not positive definite."""
    functions = routines(a, "potrf")
    if functions is None:
        return np.asarray(np.linalg.cholesky(a))
    out = np.empty_like(a)
    for at in np.ndindex(a.shape[:-2]):
        factor, info = functions[0](transposed(a[at]), lower=0, clean=1)  # the transpose is in the order of Fortran
        _refuse(info, "Matrix is not positive definite")
        out[at] = transposed(factor)
    return out


def slogdet(a: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the absolute value of the determinant."""
    functions = routines(a, "getrf")
    if functions is None:
        sign, logarithm = np.linalg.slogdet(a)
        return np.asarray(sign), np.asarray(logarithm)
    diagonal, sign = np.empty(a.shape[:-1], a.dtype), np.empty(a.shape[:-2], a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        factors, pivots, _ = functions[0](transposed(a[at]))
        diagonal[at] = np.diagonal(factors)
        sign[at] = (-1) ** np.count_nonzero(pivots != np.arange(len(pivots)))
    with np.errstate(divide="ignore"):
        return sign * np.sign(diagonal).prod(-1), np.log(np.abs(diagonal)).sum(-1)


def qr(a: Array) -> tuple[Array, Array]:
    """The reduced QR decomposition."""
    if routines(a) is None:
        q, r = np.linalg.qr(a)
        return q, r
    decompose: Callable[..., Any] = _scipy_qr()
    k = min(a.shape[-2:])
    q, r = np.empty((*a.shape[:-1], k), a.dtype), np.empty((*a.shape[:-2], k, a.shape[-1]), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        q[at], r[at] = decompose(a[at], mode="economic", check_finite=False)
    return q, r


def _scipy_qr() -> Any:
    from scipy.linalg import qr

    return qr


def _refuse(info: int, problem: str) -> None:
    if info:
        raise np.linalg.LinAlgError(problem)

"""LAPACK and BLAS by SciPy for large matrices, where it is faster than NumPy, and by NumPy for all others.

All functions take stacks of matrices, like those of `numpy.linalg`. Products of large matrices are SciPy's as well:
each package has an OpenBLAS of its own, and the waiting threads of one keep the cores from those of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.ir.precision import Precision, float32
from ocannl.lang.linalg.arrays import Array, transposed

LARGE = 64
"""From this size on, SciPy is called for each matrix."""
BLAS_TYPES = "fdFD"  # type characters of NumPy


def library(a: Array) -> Any:
    """The module `scipy.linalg` for a large matrix; None for small matrices and without SciPy."""
    if min(a.shape[-2:]) < LARGE:
        return None
    try:
        import scipy.linalg
    except ImportError:
        return None
    return scipy.linalg


def routines(a: Array, *names: str) -> list[Any] | None:
    """The LAPACK routines for the type of a large matrix; None for small matrices and without SciPy."""
    scipy = library(a)
    return None if scipy is None else list(scipy.get_lapack_funcs(names, dtype=a.dtype))


def product(a: Array, b: Array) -> Array:
    """`a @ b`. The stacks broadcast."""
    scipy = library(a) and library(b)
    if scipy is None or a.dtype != b.dtype or a.dtype.char not in BLAS_TYPES:
        return np.asarray(a @ b)
    (multiply,) = scipy.get_blas_funcs(("gemm",), dtype=a.dtype)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b))
    out = np.empty((*stack, a.shape[-2], b.shape[-1]), a.dtype)
    for at in np.ndindex(stack):  # of the transposes, which are in the order of Fortran
        (left, is_left_transposed), (right, is_right_transposed) = columns_first(b[at].T), columns_first(a[at].T)
        multiply(1, left, right, trans_a=is_left_transposed, trans_b=is_right_transposed, c=out[at].T, overwrite_c=True)
    return out


def columns_first(a: Array) -> tuple[Array, bool]:
    """A matrix, or its transpose if that is in the order of Fortran, and whether it is the transpose."""
    return (a.T, True) if a.flags.c_contiguous and not a.flags.f_contiguous else (a, False)


def solve(a: Array, b: Array) -> Array:
    """The solution of `a @ x = b`. The stacks broadcast. Raises: LinAlgError for a singular matrix."""
    kind = np.result_type(a, b)
    a, b = a.astype(kind, copy=False), b.astype(kind, copy=False)
    functions = routines(a, "getrf", "getrs")
    if functions is None:
        return np.asarray(np.linalg.solve(a, b))
    factorize, substitute = functions
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    matrices, sides = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b))
    out = np.empty(sides.shape, kind)
    for at in np.ndindex(stack):
        factors, pivots, info = factorize(transposed(matrices[at]))  # the transpose is in the order of Fortran
        _refuse(info, "Singular matrix")
        out[at], _ = substitute(factors, pivots, sides[at], trans=1)
    return out


def is_large(size: int) -> bool:
    """Whether the functions of a single decomposition serve square matrices of this size: they need SciPy."""
    return library(np.empty((size, size), np.float32)) is not None


def keeps_factors(precision: Precision) -> bool:
    """Whether arrays of the type of a matrix can hold its decomposition: narrow types round pivots and reflectors."""
    return precision.nbytes >= float32.nbytes


def factorize(a: Array) -> Array:
    """The LU decomposition of large matrices: that of the transpose, with the pivots as a last row."""
    functions = routines(a, "getrf")
    assert functions is not None
    n = a.shape[-1]
    out = np.empty((*a.shape[:-2], n + 1, n), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        factors, out[at][n], _ = functions[0](transposed(a[at]))  # the transpose is in the order of Fortran
        out[at][:n] = transposed(factors)
    return out


def substitute(packed: Array, b: Array, transpose: bool) -> Array:
    """The solution of `a @ x = b`, or of `a.T @ x = b`, with the result of `factorize`. The stacks broadcast. Raises:
    LinAlgError for a singular matrix."""
    functions = routines(packed, "getrs")
    assert functions is not None
    stack = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    decompositions, sides = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (packed, b))
    out = np.empty(sides.shape, np.result_type(packed, b))
    for at in np.ndindex(stack):
        factors, pivots = _factors(decompositions[at])
        out[at], _ = functions[0](factors, pivots, sides[at], trans=not transpose)
    return out


def inverse(packed: Array) -> Array:
    """The inverse, with the result of `factorize`. Raises: LinAlgError for a singular matrix."""
    functions = routines(packed, "getri", "getri_lwork")
    assert functions is not None
    invert, workspace = functions
    out = np.empty_like(packed[..., :-1, :])
    size = int(workspace(packed.shape[-1])[0].real)
    for at in np.ndindex(packed.shape[:-2]):
        factors, pivots = _factors(packed[at])
        out[at] = transposed(invert(factors, pivots, lwork=size)[0])
    return out


def _factors(packed: Array) -> tuple[Array, Array]:
    _refuse(not np.diagonal(packed).all(), "Singular matrix")
    return transposed(packed[:-1]), packed[-1].astype(np.int32)


def inv(a: Array) -> Array:
    """The inverse. Raises: LinAlgError for a singular matrix."""
    functions = routines(a, "getrf", "getri", "getri_lwork")
    if functions is None:
        return np.asarray(np.linalg.inv(a))
    factorize, invert, workspace = functions
    out = np.empty_like(a)
    size = int(workspace(a.shape[-1])[0].real)
    for at in np.ndindex(a.shape[:-2]):
        factors, pivots, info = factorize(transposed(a[at]))
        _refuse(info, "Singular matrix")
        inverse, _ = invert(factors, pivots, lwork=size, overwrite_lu=1)
        out[at] = transposed(inverse)
    return out


def cholesky(a: Array) -> Array:
    """The lower triangular factor. Raises: LinAlgError for a matrix that is not positive definite."""
    functions = routines(a, "potrf")
    if functions is None:
        return np.asarray(np.linalg.cholesky(a))
    out = np.empty_like(a)
    for at in np.ndindex(a.shape[:-2]):
        factor, info = functions[0](transposed(a[at]), lower=0, clean=1)
        _refuse(info, "Matrix is not positive definite")
        out[at] = transposed(factor)
    return out


def slogdet(a: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the absolute value of the determinant."""
    if library(a) is None:
        sign, logarithm = np.linalg.slogdet(a)
        return np.asarray(sign), np.asarray(logarithm)
    return slogdet_of_factors(factorize(a))


def slogdet_of_factors(packed: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the absolute value of the determinant, with the result of `factorize`."""
    diagonal, pivots = np.diagonal(packed, axis1=-2, axis2=-1), packed[..., -1, :]
    exchanges = np.count_nonzero(pivots != np.arange(pivots.shape[-1]), -1)
    with np.errstate(divide="ignore"):
        sign = np.where(exchanges % 2, -1, 1).astype(packed.dtype) * np.sign(diagonal).prod(-1)
        return sign, np.log(np.abs(diagonal)).sum(-1)


def qr(a: Array) -> tuple[Array, Array]:
    """The reduced QR decomposition."""
    functions = routines(a, "geqrf", "geqrf_lwork", "orgqr")
    if functions is None:
        q, r = np.linalg.qr(a)
        return q, r
    factorize, workspace, accumulate = functions
    k, size = min(a.shape[-2:]), int(workspace(*a.shape[-2:])[0])
    q, r = np.empty((*a.shape[:-1], k), a.dtype), np.empty((*a.shape[:-2], k, a.shape[-1]), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        vectors, factors, _, _ = factorize(a[at], lwork=size)
        r[at] = vectors[:k]
        q[at], _, _ = accumulate(vectors[:, :k], factors, lwork=size, overwrite_a=1)
    return q, np.triu(r)


def reflectors(a: Array) -> Array:
    """The reduced QR decomposition of large matrices by `geqrf`: R, below it the Householder vectors, and a last row
    of their factors; a last column for wide matrices."""
    scipy = library(a)
    (factorize,) = scipy.get_lapack_funcs(("geqrf",), dtype=a.dtype)
    (workspace,) = scipy.get_lapack_funcs(("geqrf_lwork",), dtype=a.dtype)
    m, n = a.shape[-2:]
    out = np.empty((*a.shape[:-2], m + (m >= n), n + (m < n)), a.dtype)
    size = int(workspace(m, n)[0])
    for at in np.ndindex(a.shape[:-2]):
        out[at][:m, :n], factors, _, _ = factorize(a[at], lwork=size)
        (out[at][m] if m >= n else out[at][:, n])[:] = factors
    return out


def columns_of(packed: Array) -> Array:
    """The orthonormal columns of a decomposition that `reflectors` computed, by `orgqr`."""
    scipy = library(packed)
    (accumulate,) = scipy.get_lapack_funcs(("orgqr",), dtype=packed.dtype)
    rows, columns = packed.shape[-2:]
    m, n = (rows - 1, columns) if rows > columns else (rows, columns - 1)
    k = min(m, n)
    out = np.empty((*packed.shape[:-2], m, k), packed.dtype)
    for at in np.ndindex(packed.shape[:-2]):
        factors = packed[at][m] if m >= n else packed[at][:, n]
        vectors = np.asfortranarray(packed[at][:m, :k])
        size = int(accumulate(vectors, factors, lwork=-1)[1][0])
        out[at], _, _ = accumulate(vectors, factors, lwork=size, overwrite_a=1)
    return out


def eigh(a: Array) -> tuple[Array, Array]:
    """The eigenvalues and eigenvectors of symmetric matrices. Raises: ValueError for NaN and infinities."""
    result = _eigh_by_scipy(a, vectors=True)
    if result is None:
        values, vectors = np.linalg.eigh(a)
        return values, vectors
    return result


def eigvalsh(a: Array) -> Array:
    """The eigenvalues of symmetric matrices. Raises: ValueError for NaN and infinities."""
    result = _eigh_by_scipy(a, vectors=False)
    return np.asarray(np.linalg.eigvalsh(a)) if result is None else result[0]


def _eigh_by_scipy(a: Array, vectors: bool) -> tuple[Array, Array] | None:
    """The eigenvalues and, with `vectors`, the eigenvectors of symmetric matrices; None for small ones and without
    SciPy."""
    functions = routines(a, "syevd", "syevd_lwork")
    if functions is None:
        return None
    decompose, workspace = functions
    if not np.isfinite(a).all():
        raise ValueError("array must not contain infs or NaNs")
    size, integers, _ = workspace(a.shape[-1], compute_v=vectors)
    size = int(np.nextafter(np.float32(size), np.float32(np.inf)))  # float32 may have rounded it down
    values, columns = np.empty(a.shape[:-1], a.dtype), np.empty_like(a)
    for at in np.ndindex(a.shape[:-2]):
        values[at], basis, info = decompose(a[at].T, compute_v=vectors, lwork=size, liwork=integers)
        _refuse(info, "The eigenvalues do not converge")
        if vectors:
            columns[at] = basis
    return values, columns


def svd(a: Array) -> tuple[Array, Array, Array]:
    """The reduced singular value decomposition. Raises: ValueError for NaN and infinities."""
    scipy = library(a)
    if scipy is None:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return u, s, vh
    k = min(a.shape[-2:])
    u, s = np.empty((*a.shape[:-1], k), a.dtype), np.empty((*a.shape[:-2], k), a.dtype)
    vh = np.empty((*a.shape[:-2], k, a.shape[-1]), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        u[at], s[at], vh[at] = scipy.svd(a[at], full_matrices=False)
    return u, s, vh


def svdvals(a: Array) -> Array:
    """The singular values. Raises: ValueError for NaN and infinities."""
    scipy = library(a)
    if scipy is None:
        return np.asarray(np.linalg.svd(a, compute_uv=False))
    s = np.empty((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        s[at] = scipy.svdvals(a[at])
    return s


def _refuse(info: object, problem: str) -> None:
    if info:
        raise np.linalg.LinAlgError(problem)

"""Triangular systems, for stacks of matrices."""

from __future__ import annotations

import numpy as np

from ocannl.lang.linalg.arrays import Array, transposed
from ocannl.lang.linalg.lapack import columns_first, library

BLOCK = 16  # rows that are substituted one by one


def solve_triangular(a: Array, b: Array, *, lower: bool, transpose: bool = False, unit_diagonal: bool = False) -> Array:
    """The solution of `a @ x = b`, or of `a.T @ x = b`; reads one triangle of `a`. The stacks broadcast.

    Raises: LinAlgError for a zero on the diagonal.
    """
    if not unit_diagonal and not np.einsum("...ii->...i", a).all():
        raise np.linalg.LinAlgError("Singular matrix")
    if transpose:
        a, lower = transposed(a), not lower
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*stack, *b.shape[-2:])), np.result_type(a, b))
    if _solved_by_scipy(np.broadcast_to(a, (*stack, *a.shape[-2:])), x, lower, unit_diagonal):
        return x
    _substitute(a, x, lower, unit_diagonal)
    return x


def _substitute(a: Array, x: Array, lower: bool, unit_diagonal: bool) -> None:
    """Replaces `x` by the solution: the first half of the rows, then the second half without their contribution."""
    n = a.shape[-1]
    if n <= BLOCK:
        for row in range(n) if lower else reversed(range(n)):
            solved = slice(0, row) if lower else slice(row + 1, n)
            x[..., row, :] -= (a[..., row, None, solved] @ x[..., solved, :])[..., 0, :]
            if not unit_diagonal:
                x[..., row, :] /= a[..., row, row, None]
        return
    halves = slice(0, n // 2), slice(n // 2, n)
    first, second = halves if lower else halves[::-1]
    _substitute(a[..., first, first], x[..., first, :], lower, unit_diagonal)
    x[..., second, :] -= a[..., second, first] @ x[..., first, :]
    _substitute(a[..., second, second], x[..., second, :], lower, unit_diagonal)


def _solved_by_scipy(a: Array, x: Array, lower: bool, unit_diagonal: bool) -> bool:
    """Replaces `x` by the solution; false for small matrices and without SciPy."""
    scipy = library(a)
    if scipy is None:
        return False
    (solve,) = scipy.get_blas_funcs(("trsm",), dtype=x.dtype)
    for at in np.ndindex(a.shape[:-2]):
        matrix, is_transposed = columns_first(a[at].astype(x.dtype, copy=False))
        sides, of_transposes = columns_first(x[at])  # `x.T @ a.T = b.T`
        solution = solve(
            1,
            matrix,
            sides,
            side=of_transposes,
            lower=lower != is_transposed,
            trans_a=is_transposed != of_transposes,
            diag=unit_diagonal,
            overwrite_b=True,
        )
        x[at] = solution.T if of_transposes else solution
    return True

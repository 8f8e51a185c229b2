"""Gradients of decompositions, as functions of NumPy arrays: the gradient of the packed results, these results, and the
matrix. Those of functions of a symmetric matrix are gradients whose symmetric part is meant.

Products with reciprocals of differences of equal eigenvalues or singular values count as 0. Results that are not used,
such as the vectors of `svdvals`, have gradients 0, whose products are not computed.
"""

from __future__ import annotations

import numpy as np

from ocannl.lang.linalg.arrays import Array, lower_half, transposed
from ocannl.lang.linalg.lapack import product
from ocannl.lang.linalg.triangular import solve_triangular


def cholesky(g: Array, l: Array, a: Array) -> tuple[Array]:
    """`l**-T @ phi(l.T @ g) @ l**-1`, where `phi` is the lower triangle with half of the diagonal."""
    inner = lower_half(product(transposed(l), np.tril(g)))
    left = solve_triangular(l, inner, lower=True, transpose=True)
    return (transposed(solve_triangular(l, transposed(left), lower=True, transpose=True)),)


def eigh(g: Array, packed: Array, a: Array) -> tuple[Array]:
    """`v @ (diag(g_w) + f * (v.T @ g_v)) @ v.T` with `f[i, j] = 1 / (w[j] - w[i])`."""
    w, v, g_w, g_v = packed[..., 0, :], packed[..., 1:, :], g[..., 0, :], g[..., 1:, :]
    left = v * g_w[..., None, :]
    if g_v.any():
        left = left + product(v, _quotient(product(transposed(v), g_v), w[..., None, :] - w[..., :, None]))
    return (product(left, transposed(v)),)


def svd(g_u: Array, g_s: Array, g_vh: Array, u: Array, s: Array, vh: Array) -> tuple[Array]:
    v, g_v, rows, columns = transposed(vh), transposed(g_vh), s[..., :, None], s[..., None, :]
    difference = (columns - rows) * (columns + rows)
    left, right = u * g_s[..., None, :], None
    if g_u.any():
        inner = product(transposed(u), g_u)
        left = left + product(u, _quotient(inner - transposed(inner), difference) * columns)
        left = left + _quotient(g_u - product(u, inner), columns)
    if g_v.any():
        inner = product(vh, g_v)
        left = left + product(u, _quotient(inner - transposed(inner), difference) * rows)
        right = _quotient(g_v - product(v, inner), columns)
    contribution = product(left, vh)
    return (contribution if right is None else contribution + product(u, transposed(right)),)


def qr(g_q: Array, g_r: Array, q: Array, r: Array, a: Array) -> tuple[Array]:
    """Of a wide matrix `[x y] = q @ [s t]`: that of `x = q @ s`, where `g_q` includes `y @ g_t.T`, and that of `y`."""
    k, g_r = q.shape[-1], np.triu(g_r)
    if k == r.shape[-1]:
        return (_tall_qr(g_q, g_r, q, r),)
    g_t = g_r[..., k:]
    g_x = _tall_qr(g_q + product(a[..., k:], transposed(g_t)), g_r[..., :k], q, r[..., :k])
    return (np.concatenate([g_x, product(q, g_t)], -1),)


def _tall_qr(g_q: Array, g_r: Array, q: Array, r: Array) -> Array:
    m = product(r, transposed(g_r))
    if g_q.any():
        m = m - product(transposed(g_q), q)
    half = lower_half(m)
    right = g_q + product(q, half + transposed(half))
    return transposed(solve_triangular(r, transposed(right), lower=False))


def lu(g_l: Array, g_u: Array, p: Array, l: Array, u: Array) -> tuple[Array]:
    """`p @ l**-T @ (tril(l.T @ g_l, -1) + triu(g_u @ u.T)) @ u**-T`."""
    inner = np.tril(product(transposed(l), g_l), -1) + np.triu(product(g_u, transposed(u)))
    left = solve_triangular(l, inner, lower=True, transpose=True, unit_diagonal=True)
    return (product(p, transposed(solve_triangular(u, transposed(left), lower=False))),)


def _quotient(numerator: Array, denominator: Array) -> Array:
    is_regular = denominator != 0
    return np.where(is_regular, numerator / np.where(is_regular, denominator, 1), 0)

"""Decompositions of matrices.

A decomposition with several results is one host call, which writes them into one packed array.

Source: Seeger et al. 2017 (Cholesky, eigenvectors); Walter, Lehmann, Lamour 2012, Roberts, Roberts 2020 (QR); Townsend
2016 (SVD); de Hoog et al. 2011 (LU).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocannl.base.errors import ShapeError
from ocannl.lang.core.context_vars import composite, gradients_enabled
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.linalg import decomposition_gradients as gradients
from ocannl.lang.linalg import lapack
from ocannl.lang.linalg.arrays import Array, scipy_linalg, symmetric_part
from ocannl.lang.linalg.matrices import form_of, host_operation, part, row
from ocannl.lang.ops.concat import concat
from ocannl.lang.ops.einsum import einsum, stop_gradient
from ocannl.lang.ops.linalg import triu

SymmetricGradient = Callable[[Array, Array, Array], tuple[Array]]
"""The gradient of a function of a symmetric matrix, from those of the result, the result and the matrix."""


@composite
def cholesky(a: object, *, label: str | None = None) -> Tensor:
    """The lower triangular `l` with `l @ l.T = a`, for the symmetric part of `a`, which must be positive definite.

        oc.linalg.cholesky(a)

    Shapes: `..b..|n->n => ..b..|n->n`, or the same with `|n,n`.
    Grad:   symmetric.
    Raises: HostCallError, when it runs, for a matrix that is not positive definite; ShapeError.
    """
    a = embed(a)
    spec = form_of(a).spec("n", "n")
    return _of_symmetric_part("cholesky", f"{spec} => {spec}", lapack.cholesky, gradients.cholesky, a, label)


@composite
def eigh(a: object) -> tuple[Tensor, Tensor]:
    """The eigenvalues, in ascending order, and eigenvectors of the symmetric part of `a`.

        w, v = oc.linalg.eigh(a)

    Column `k` of `v` is the eigenvector of `w[k]`.

    Shapes: `..b..|n->n => ..b..|n` and `..b..|n->n`, or the same with `|n,n`.
    Grad:   symmetric. Pairs of equal eigenvalues contribute nothing, which is exact for functions that do not depend on
            the choice of eigenvectors in an eigenspace; for other functions the gradient does not exist there.
    Raises: HostCallError, when it runs, for NaN and infinities; ShapeError.
    """
    a = embed(a)
    form = form_of(a)

    def forward(a: Array) -> Array:
        w, v = lapack.eigh(a)
        return np.concatenate([w[..., None, :], v], -2)

    packed = _of_symmetric_part("eigh", f"{form.spec('n', 'n')} => ...|1^n,n", forward, gradients.eigh, a)
    return row(packed, "w", "...|0,n => ...|n"), part(packed, "v", f"...|1^m,n => {form.spec('m', 'n')}")


@composite
def eigvalsh(a: object) -> Tensor:
    """The eigenvalues of the symmetric part of `a`, in ascending order.

        oc.linalg.eigvalsh(a)

    Shapes: `..b..|n->n => ..b..|n`, or from `|n,n`.
    Grad:   that of `eigh`, which is computed instead if `a` has a gradient.
    Raises: HostCallError, when it runs, for NaN and infinities; ShapeError.
    """
    a = embed(a)
    if a.has_gradient and gradients_enabled.get():
        return eigh(a)[0]
    return _of_symmetric_part("eigvalsh", f"{form_of(a).spec('n', 'n')} => ...|n", lapack.eigvalsh, None, a)


def _of_symmetric_part(
    name: str,
    spec: str,
    forward: Callable[[Array], Array],
    gradient: SymmetricGradient | None,
    a: Tensor,
    label: str | None = None,
) -> Tensor:
    """The host call on the symmetric part of `a`. That is compiled, which is much faster than transposition by NumPy,
    unless the type of `a` would round it."""
    if (kind := a.typing.current).is_float and lapack.keeps_factors(kind):
        rows, columns = form_of(a).spec("i", "j"), form_of(a).spec("j", "i")
        a = einsum(f"{rows}; {columns} => {rows}", a, a, combine="add") / 2
    else:
        forward = _with_symmetric_operand(forward)
        gradient = gradient and _with_symmetric_result(gradient)
    return host_operation(name, spec, forward, gradient, [a], label=label)


def _with_symmetric_operand(forward: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda a: forward(symmetric_part(a))


def _with_symmetric_result(gradient: SymmetricGradient) -> SymmetricGradient:
    return lambda g, value, a: (symmetric_part(*gradient(g, value, a)),)


@composite
def qr(a: object) -> tuple[Tensor, Tensor]:
    """The decomposition `a = q @ r` into orthonormal columns and an upper triangular matrix, with `k = min(m, n)`.

        q, r = oc.linalg.qr(a)

    The call infers the sizes of the matrix.

    Shapes: `..b..|n->m => ..b..|k->m` and `..b..|n->k`, or the same with `|m,n`.
    Grad:   that of Walter and others; it exists if the first `k` columns of `a` are linearly independent.
    Raises: HostCallError, when gradients run, for linearly dependent columns; ShapeError.
    """
    a = embed(a)
    form, (m, n) = form_of(a), _sizes(a, "qr")
    is_packed = lapack.is_large(min(m, n)) and lapack.keeps_factors(a.typing.current)
    if is_packed and not (a.has_gradient and gradients_enabled.get()):
        return _qr_of_reflectors(a, m, n)
    axis, packed_spec = (-2, "m^n,n") if m >= n else (-1, "m,m^n")

    def forward(a: Array) -> Array:
        return np.concatenate(lapack.qr(a), axis)

    def gradient(g: Array, packed: Array, a: Array) -> tuple[Array]:
        (g_q, g_r), (q, r) = (np.split(x, [m], axis) for x in (g, packed))
        return gradients.qr(g_q, g_r, q, r, a)

    spec = f"{form.spec('m', 'n')} => ...|{packed_spec}"
    packed = host_operation("qr", spec, forward, gradient, [a])
    if m >= n:
        specs = f"...|i^{n},k => {form.spec('i', 'k')}", f"...|{m}^k,j => {form.spec('k', 'j')}"
    else:
        specs = f"...|i,k^{n} => {form.spec('i', 'k')}", f"...|k,{m}^j => {form.spec('k', 'j')}"
    return part(packed, "q", specs[0]), part(packed, "r", specs[1])


def _qr_of_reflectors(a: Tensor, m: int, n: int) -> tuple[Tensor, Tensor]:
    """The decomposition without gradients, of which `q` is a host call of its own: it only runs where `q` is read."""
    form = form_of(a)
    if m >= n:
        packed_spec, q_spec, r_spec = "m^1,n", f"m^1,k => {form.spec('m', 'k')}", f"k^{m - n + 1},n"
    else:
        packed_spec, q_spec, r_spec = "m,n^1", f"m,c => {form.spec('m', 'm')}", "k,n^1"
    packed = host_operation("qr", f"{form.spec('m', 'n')} => ...|{packed_spec}", lapack.reflectors, None, [a])
    q = host_operation("qr columns", f"...|{q_spec}", lapack.columns_of, None, [packed])
    upper = triu(concat(f"...|{r_spec} => ...|k,n", packed))
    return q, einsum(f"...|k,n => {form.spec('k', 'n')}", upper, label=f"{packed.label}.r")


@composite
def svd(a: object) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition `a = u @ diag(s) @ vh`, with `k = min(m, n)` singular values, largest first.

        u, s, vh = oc.linalg.svd(a)

    The call infers the sizes of the matrix.

    Shapes: `..b..|n->m => ..b..|k->m`, `..b..|k` and `..b..|n->k`, or the same with `|m,n`.
    Grad:   pairs of equal singular values contribute nothing, and neither do singular values 0. This is exact for
            functions that do not depend on the choice of singular vectors; for other functions the gradient does not
            exist there.
    Raises: HostCallError, when it runs, for NaN and infinities; ShapeError.
    """
    a = embed(a)
    form, (m, n) = form_of(a), _sizes(a, "svd")
    axis, packed_spec = (-2, "m^1^n,n") if m >= n else (-1, "m,m^1^n")

    def forward(a: Array) -> Array:
        u, s, vh = lapack.svd(a)
        return np.concatenate([u, np.expand_dims(s, axis), vh], axis)

    def gradient(g: Array, packed: Array, a: Array) -> tuple[Array]:
        (g_u, g_s, g_vh), (u, s, vh) = (np.split(x, [m, m + 1], axis) for x in (g, packed))
        return gradients.svd(g_u, g_s.squeeze(axis), g_vh, u, s.squeeze(axis), vh)

    packed = host_operation("svd", f"{form.spec('m', 'n')} => ...|{packed_spec}", forward, gradient, [a])
    if m >= n:
        regions = f"i^1^{n},k", f"{m},k", f"{m}^1^k,j"
    else:
        regions = f"i,k^1^{n}", f"k,{m}", f"k,{m}^1^j"
    u = part(packed, "u", f"...|{regions[0]} => {form.spec('i', 'k')}")
    s = row(packed, "s", f"...|{regions[1]} => ...|k")
    return u, s, part(packed, "vh", f"...|{regions[2]} => {form.spec('k', 'j')}")


@composite
def svdvals(a: object) -> Tensor:
    """The singular values of a matrix, largest first.

        oc.linalg.svdvals(a)

    The call infers the sizes of the matrix.

    Shapes: `..b..|n->m => ..b..|k` with `k = min(m, n)`, or from `|m,n`.
    Grad:   that of `svd`, which is computed instead if `a` has a gradient.
    Raises: HostCallError, when it runs, for NaN and infinities; ShapeError.
    """
    a = embed(a)
    sizes = _sizes(a, "svdvals")

    if a.has_gradient and gradients_enabled.get():
        return svd(a)[1]
    spec = f"{form_of(a).spec('m', 'n')} => ...|k"
    return host_operation("svdvals", spec, lapack.svdvals, None, [a], sizes={"k": min(sizes)})


@composite
def lu(a: object) -> tuple[Tensor, Tensor, Tensor]:
    """The decomposition `a = p @ l @ u` of a square matrix: a permutation, a lower triangular matrix with ones on the
    diagonal, and an upper triangular matrix.

        p, l, u = oc.linalg.lu(a)

    It needs SciPy.

    Shapes: `..b..|n->n => ..b..|n->n` for each, or the same with `|n,n`.
    Grad:   that of de Hoog and others, of `l` and `u`; none of `p`.
    Raises: Unsupported without SciPy; HostCallError, when gradients run, for a singular matrix; ShapeError.
    """
    a = embed(a)
    form, scipy = form_of(a), scipy_linalg("oc.linalg.lu")

    def forward(a: Array) -> Array:
        return np.concatenate(scipy.lu(a), -2)

    def gradient(g: Array, packed: Array, a: Array) -> tuple[Array]:
        (_, g_l, g_u), (p, lower, upper) = (np.split(x, 3, -2) for x in (g, packed))
        return gradients.lu(g_l, g_u, p, lower, upper)

    packed = host_operation("lu", f"{form.spec('n', 'n')} => ...|n^n^n,n", forward, gradient, [a])
    n = _sizes(a, "lu")[0]
    p = part(packed, "p", f"...|i^{n}^{n},j => {form.spec('i', 'j')}")
    lower = part(packed, "l", f"...|{n}^i^{n},j => {form.spec('i', 'j')}")
    upper = part(packed, "u", f"...|{n}^{n}^i,j => {form.spec('i', 'j')}")
    return stop_gradient(p), lower, upper


def _sizes(a: Tensor, name: str) -> tuple[int, int]:
    """The sizes of a matrix; finishes inference."""
    if len(a.dims) < 2:
        raise ShapeError(f"oc.linalg.{name}: `{a.label}` of the sizes {a.dims} is not a matrix, which has two axes")
    return a.dims[-2], a.dims[-1]

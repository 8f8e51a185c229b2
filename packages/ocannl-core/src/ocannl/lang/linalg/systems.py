"""Linear systems, inverses and determinants.

Source: Giles 2008 (gradients); Golub, Pereyra 1973 (pseudoinverse).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.context_vars import composite, gradients_enabled
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.linalg import lapack, triangular
from ocannl.lang.linalg.arrays import Array, transposed
from ocannl.lang.linalg.matrices import form_of, host_operation, is_vector
from ocannl.lang.ops.einsum import einsum, stop_gradient
from ocannl.lang.ops.indexed_rows import last_axis_size


def solve(a: object, b: object, *, label: str | None = None) -> Tensor:
    """The solution `x` of `a @ x = b`, by LU decomposition; `b` is a vector or a matrix.

        oc.linalg.solve(a, b)

    Shapes: `..b..|n->n; ..b..|n => ..b..|n`, or `..b..|n->n; ..b..|k->n => ..b..|k->n`; `|n,k` stands for `|k->n`.
    Grad:   with `y` the solution of `a.T @ y = g`: to `b` `y`, to `a` `-y @ x.T`.
    Raises: HostCallError, when it runs, for a singular matrix; ShapeError.
    """
    a, b = embed(a), embed(b)
    column = is_vector(b)
    factors = _shared_factors(a) if a.typing.current is b.typing.current else None

    def solved(a: Array, b: Array, transpose: bool, factors: tuple[Array, ...]) -> Array:
        sides = b[..., None] if column else b
        if factors:
            x = lapack.substitute(factors[0], sides, transpose)
        else:
            x = lapack.solve(transposed(a) if transpose else a, sides)
        return x[..., 0] if column else x

    def forward(a: Array, b: Array, *factors: Array) -> Array:
        return solved(a, b, False, factors)

    def gradient(g: Array, x: Array, a: Array, b: Array, *factors: Array) -> tuple[Array, Array]:
        y = solved(a, g, True, factors)
        return -_outer(y, x, column), y

    if factors is None:
        return host_operation("solve", _system_spec(a, b), forward, gradient, [a, b], label=label)
    operands, result = _system_spec(a, b).split(" => ")
    spec = f"{operands}; {_FACTORS} => {result}"
    return host_operation("solve", spec, forward, gradient, [a, b, factors], label=label, constants=1)


def solve_triangular(
    a: object,
    b: object,
    *,
    lower: bool = True,
    transpose: bool = False,
    unit_diagonal: bool = False,
    label: str | None = None,
) -> Tensor:
    """The solution `x` of `a @ x = b`, or with `transpose` of `a.T @ x = b`, for a triangular matrix.

        oc.linalg.solve_triangular(a, b, lower=True)

    The other triangle of `a` is not read; with `unit_diagonal`, the diagonal counts as ones.

    Shapes: those of `solve`.
    Grad:   those of `solve`, in the triangle that is read.
    Raises: HostCallError, when it runs, for a zero on the diagonal; ShapeError.
    """
    a, b = embed(a), embed(b)
    column = is_vector(b)

    def solved(a: Array, b: Array, transpose: bool) -> Array:
        sides = b[..., None] if column else b
        x = triangular.solve_triangular(a, sides, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal)
        return x[..., 0] if column else x

    def forward(a: Array, b: Array) -> Array:
        return solved(a, b, transpose)

    def gradient(g: Array, x: Array, a: Array, b: Array) -> tuple[Array, Array]:
        y = solved(a, g, not transpose)
        full = -_outer(x, y, column) if transpose else -_outer(y, x, column)
        return (np.tril(full, -unit_diagonal) if lower else np.triu(full, unit_diagonal)), y

    return host_operation("solve_triangular", _system_spec(a, b), forward, gradient, [a, b], label=label)


def _system_spec(a: Tensor, b: Tensor) -> str:
    side = "...|n" if is_vector(b) else form_of(b).spec("n", "k")
    return f"{form_of(a).spec('n', 'n')}; {side} => {side}"


_FACTORS = "...|n^1,n"


def _shared_factors(a: Tensor) -> Tensor | None:
    """The LU decomposition of a large matrix, which values and gradients share; None if the matrix is small, its size
    is not inferred, it has no gradient, or its type is so narrow that pivots would be rounded."""
    is_shared = a.has_gradient and gradients_enabled.get() and lapack.keeps_factors(a.typing.current)
    if not is_shared or not lapack.is_large(last_axis_size(a) or 0):
        return None
    spec = f"{form_of(a).spec('n', 'n')} => {_FACTORS}"
    return host_operation("lu", spec, lapack.factorize, None, [stop_gradient(a)])


def _outer(x: Array, y: Array, column: bool) -> Array:
    return np.asarray(x[..., :, None] * y[..., None, :] if column else lapack.product(x, transposed(y)))


def inv(a: object, *, label: str | None = None) -> Tensor:
    """The inverse of a square matrix. For a product with it, `solve` is faster and more accurate.

        oc.linalg.inv(a)

    Shapes: `..b..|n->n => ..b..|n->n`, or the same with `|n,n`.
    Grad:   `-x.T @ g @ x.T`, where `x` is the inverse.
    Raises: HostCallError, when it runs, for a singular matrix; ShapeError.
    """
    a = embed(a)
    spec = form_of(a).spec("n", "n")

    def gradient(g: Array, x: Array, a: Array) -> tuple[Array]:
        return (-lapack.product(lapack.product(transposed(x), g), transposed(x)),)

    return host_operation("inv", f"{spec} => {spec}", lapack.inv, gradient, [a], label=label)


def det(a: object, *, label: str | None = None) -> Tensor:
    """The determinant of a square matrix.

        oc.linalg.det(a)

    Shapes: `..b..|n->n => ..b..|`, or from `|n,n`.
    Grad:   `g` times the matrix of cofactors, also for singular matrices.
    Raises: ShapeError.
    """
    a = embed(a)

    def gradient(g: Array, value: Array, a: Array) -> tuple[Array]:
        return (g[..., None, None] * _cofactors(a),)

    return host_operation("det", f"{form_of(a).spec('n', 'n')} => ...|", np.linalg.det, gradient, [a], label=label)


def _cofactors(a: Array) -> Array:
    """`det(a) * inv(a).T`; if a matrix is singular or nearly so, from singular values, for which it is defined."""
    try:
        inverse = lapack.inv(a)
        norms = np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))
        if (norms < np.finfo(a.dtype).eps ** -0.5).all():
            return np.asarray(np.linalg.det(a)[..., None, None] * transposed(inverse))
    except np.linalg.LinAlgError:
        pass
    u, s, vh = np.linalg.svd(a)
    n = a.shape[-1]
    products = np.stack([np.prod(np.delete(s, k, -1), -1) for k in range(n)], -1) if n else s
    sign = np.round(np.linalg.det(u) * np.linalg.det(vh))
    return np.asarray(sign[..., None, None] * ((u * products[..., None, :]) @ vh))


@composite
def slogdet(a: object) -> tuple[Tensor, Tensor]:
    """The sign and the logarithm of the absolute value of the determinant of a square matrix.

        sign, logabsdet = oc.linalg.slogdet(a)

    Shapes: `..b..|n->n => ..b..|` for both, or from `|n,n`.
    Grad:   of the logarithm `g * inv(a).T`; none of the sign. A singular matrix has no gradient: HostCallError.
    Raises: ShapeError.
    """
    a = embed(a)
    factors = _shared_factors(a)

    def forward(a: Array, *factors: Array) -> Array:
        return np.stack(lapack.slogdet_of_factors(factors[0]) if factors else lapack.slogdet(a), -1)

    def gradient(g: Array, value: Array, a: Array, *factors: Array) -> tuple[Array]:
        inverse = lapack.inverse(factors[0]) if factors else lapack.inv(a)
        return (g[..., 1, None, None] * transposed(inverse),)

    operands = [a] if factors is None else [a, factors]
    specs = [form_of(a).spec("n", "n"), _FACTORS][: len(operands)]
    packed = host_operation(
        "slogdet", f"{'; '.join(specs)} => ...|p", forward, gradient, operands, sizes={"p": 2},
        constants=len(operands) - 1,
    )  # fmt: skip
    return einsum("...|0 => ...|", packed, label="sign"), einsum("...|1 => ...|", packed, label="logabsdet")


def pinv(a: object, *, rtol: float | None = None, label: str | None = None) -> Tensor:
    """The Moore-Penrose pseudoinverse; singular values up to `rtol` times the largest count as 0.

        oc.linalg.pinv(a)

    By default, `rtol` is the larger size of the matrix times the machine epsilon.

    Shapes: `..b..|c->r => ..b..|r->c`, or `..b..|r,c => ..b..|c,r`.
    Grad:   that of Golub and Pereyra, for matrices whose rank is the same in their neighborhood.
    Raises: CodeError unless `rtol` is a positive number; ShapeError.
    """
    a = embed(a)
    if rtol is not None and (is_bool(rtol) or not isinstance(rtol, int | float) or not rtol >= 0):
        raise CodeError(f"oc.linalg.pinv: `rtol` must be a number that is not negative, not {rtol!r}")
    form = form_of(a)

    def forward(a: Array) -> Array:
        limit = max(a.shape[-2:]) * np.finfo(a.dtype).eps if rtol is None else rtol
        return np.asarray(np.linalg.pinv(a, rcond=limit))

    def gradient(g: Array, p: Array, a: Array) -> tuple[Array]:
        pt, gt = transposed(p), transposed(g)
        ap, pa = a @ p, p @ a
        by_range = gt @ p @ pt - ap @ gt @ p @ pt
        by_kernel = pt @ p @ gt - pt @ p @ gt @ pa
        return (-pt @ g @ pt + by_range + by_kernel,)

    spec = f"{form.spec('r', 'c')} => {form.spec('c', 'r')}"
    return host_operation("pinv", spec, forward, gradient, [a], label=label)


@composite
def lstsq(a: object, b: object, *, rtol: float | None = None) -> Tensor:
    """The solution `x` of least norm among those that minimize the norm of `a @ x - b`; `b` is a vector or a matrix.

        oc.linalg.lstsq(a, b)

    It is `pinv(a) @ b`, with singular values of `a` up to `rtol` times the largest counting as 0.

    Shapes: `..b..|c->r; ..b..|r => ..b..|c`, or `..b..|c->r; ..b..|k->r => ..b..|k->c`; `|r,c` stands for `|c->r`.
    Grad:   through `pinv`.
    Raises: ShapeError.
    """
    a, b = embed(a), embed(b)
    inverse = pinv(a, rtol=rtol)
    form = form_of(a).spec("c", "r")
    if is_vector(b):
        return einsum(f"{form}; ...|r => ...|c", inverse, b)
    side = form_of(b)
    return einsum(f"{form}; {side.spec('r', 'k')} => {side.spec('c', 'k')}", inverse, b)


@composite
def matrix_power(a: object, n: int) -> Tensor:
    """The power of a square matrix to an integer, by repeated squaring; negative powers are those of the inverse.

        oc.linalg.matrix_power(a, 3)

    Shapes: `..b..|n->n => ..b..|n->n`, or the same with `|n,n`.
    Grad:   that of the products.
    Raises: CodeError unless `n` is an integer; HostCallError, when it runs, for negative powers of a singular matrix.
    """
    if is_bool(n) or not isinstance(n, int | np.integer):
        raise CodeError(f"oc.linalg.matrix_power: the power must be an integer, not {n!r}")
    a = embed(a)
    form = form_of(a)
    spec = form.spec("n", "n")
    if n == 0:
        return host_operation("matrix_power", f"{spec} => {spec}", _identities, lambda g, v, a: (0 * g,), [a])
    if n == 1:
        return host_operation("matrix_power", f"{spec} => {spec}", _same, lambda g, v, a: (g,), [a])
    product = f"{form.spec('i', 'j')}; {form.spec('j', 'k')} => {form.spec('i', 'k')}"
    square, power, remaining = (a if n > 0 else inv(a)), None, abs(int(n))
    while remaining:
        if remaining & 1:
            power = square if power is None else einsum(product, power, square)
        remaining >>= 1
        if remaining:
            square = einsum(product, square, square)
    assert power is not None
    return power


def _identities(a: Array) -> Array:
    return np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)


def _same(a: Array) -> Any:
    return a

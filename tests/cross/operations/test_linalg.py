"""Linear algebra beside NumPy and PyTorch: values, gradients, shapes, degenerate matrices and refusals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.lang.linalg import lapack

RNG = np.random.default_rng(19)
RANDOM_SHAPES = int(os.environ.get("OCANNL_TEST_OPERANDS", "3"))
TOLERANCE = {"float32": 2e-4, "float64": 1e-9}
LINALG = oc.linalg


def regular(*dims):
    return RNG.normal(size=dims) + 3 * np.eye(dims[-2], dims[-1])


def symmetric(*dims):
    a = RNG.normal(size=dims)
    return a + np.swapaxes(a, -1, -2)


def definite(*dims):
    a = RNG.normal(size=dims)
    return a @ np.swapaxes(a, -1, -2) + dims[-1] * np.eye(dims[-1])


def squares(*results):
    """Results whose signs are arbitrary."""
    return tuple(r * r for r in results)


@dataclass(frozen=True)
class Row:
    """An operation beside the function of PyTorch; `call` takes a namespace and operands."""

    name: str
    ours: Callable
    torch: Callable
    operands: tuple[np.ndarray, ...]


def torch_lstsq(t, a, b):
    return t.linalg.lstsq(a, b).solution


def symmetric_part(a):
    return (a + a.mT) / 2


def triangular_row(lower, transpose, unit):
    def ours(a, b):
        return LINALG.solve_triangular(a, b, lower=lower, transpose=transpose, unit_diagonal=unit)

    def theirs(t, a, b):
        triangle = t.tril(a) if lower else t.triu(a)
        return t.linalg.solve_triangular(
            triangle.mT if transpose else triangle, b, upper=lower == transpose, unitriangular=unit
        )

    name = f"solve_triangular lower={lower} transpose={transpose} unit_diagonal={unit}"
    return Row(name, ours, theirs, (regular(4, 4), RNG.normal(size=(4, 2))))


def power_row(n):
    return Row(
        f"matrix_power {n}",
        lambda a: LINALG.matrix_power(a, n),
        lambda t, a: t.linalg.matrix_power(a, n),
        (regular(3, 3),),
    )


def norm_row(order):
    return Row(
        f"norm {order}",
        lambda a: LINALG.norm(a, order),
        lambda t, a: t.linalg.matrix_norm(a, order),
        (RNG.normal(size=(3, 4)),),
    )


def svd_row(dims):
    return Row(
        f"svd of {dims}",
        lambda a: squares(*LINALG.svd(a)),
        lambda t, a: squares(*t.linalg.svd(a, full_matrices=False)),
        (RNG.normal(size=dims),),
    )


def qr_row(dims):
    return Row(
        f"qr of {dims}",
        lambda a: squares(*LINALG.qr(a)),
        lambda t, a: squares(*t.linalg.qr(a)),
        (RNG.normal(size=dims),),
    )


def eigh_row():
    def ours(a):
        w, v = LINALG.eigh(a)
        return w, v * v

    def theirs(t, a):
        w, v = t.linalg.eigh(symmetric_part(a))
        return w, v * v

    return Row("eigh", ours, theirs, (symmetric(4, 4),))


SQUARE, TALL, WIDE = (4, 4), (5, 3), (3, 5)
FLAGS = True, False
ROWS = [
    Row("solve a vector", LINALG.solve, lambda t, a, b: t.linalg.solve(a, b), (regular(3, 3), RNG.normal(size=3))),
    Row("solve a matrix", LINALG.solve, lambda t, a, b: t.linalg.solve(a, b), (regular(4, 4), RNG.normal(size=(4, 2)))),
    *(triangular_row(lower, transpose, unit) for lower in FLAGS for transpose in FLAGS for unit in FLAGS),
    Row("inv", LINALG.inv, lambda t, a: t.linalg.inv(a), (regular(4, 4),)),
    Row("det", LINALG.det, lambda t, a: t.linalg.det(a), (regular(4, 4),)),
    Row("slogdet", LINALG.slogdet, lambda t, a: tuple(t.linalg.slogdet(a)), (regular(4, 4),)),
    Row("pinv of a tall matrix", LINALG.pinv, lambda t, a: t.linalg.pinv(a), (RNG.normal(size=TALL),)),
    Row("pinv of a wide matrix", LINALG.pinv, lambda t, a: t.linalg.pinv(a), (RNG.normal(size=WIDE),)),
    Row("lstsq", LINALG.lstsq, torch_lstsq, (RNG.normal(size=TALL), RNG.normal(size=(5, 2)))),
    *map(power_row, (-3, -1, 0, 1, 2, 5)),
    Row("cholesky", LINALG.cholesky, lambda t, a: t.linalg.cholesky(symmetric_part(a)), (definite(4, 4),)),
    eigh_row(),
    Row("eigvalsh", LINALG.eigvalsh, lambda t, a: t.linalg.eigvalsh(symmetric_part(a)), (symmetric(4, 4),)),
    *map(svd_row, (SQUARE, TALL, WIDE)),
    *map(qr_row, (SQUARE, TALL, WIDE)),
    Row("svdvals", LINALG.svdvals, lambda t, a: t.linalg.svdvals(a), (RNG.normal(size=WIDE),)),
    *map(norm_row, ("fro", "nuc", 1, -1, 2, -2, inf, -inf)),
]


def as_tuple(results):
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def weighted(results, array):
    """A scalar that depends on all cells: the weights are numbered by the cells."""
    total = 0
    for r in results:
        dims = tuple(r.shape) if not isinstance(r, oc.Tensor) else r.dims
        weights = np.cos(np.arange(np.prod(dims, dtype=int))).reshape(dims)
        total = total + (r * array(weights)).sum()
    return total


@pytest.mark.sample(covering=("row backend", "row kind"))
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_values_and_gradients_are_those_of_torch(ctx, row, kind):
    torch = pytest.importorskip("torch")
    params = [oc.param(f"x{n}", array.astype(kind)) for n, array in enumerate(row.operands)]
    results = as_tuple(row.ours(*params))
    loss = weighted(results, lambda w: oc.tensor(w.astype(kind)))
    ctx.init(loss)
    step = ctx.compile(train.grad_update(loss), keep=results)
    step()
    theirs = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in row.operands]
    expected = as_tuple(row.torch(torch, *theirs))
    weighted(expected, torch.tensor).backward()
    for r, e in zip(results, expected, strict=True):
        assert r.dtype.name == kind
        np.testing.assert_allclose(ctx[r], e.detach().numpy(), rtol=TOLERANCE[kind], atol=TOLERANCE[kind])
    for p, e in zip(params, theirs, strict=True):
        expected_grad = np.zeros(e.shape) if e.grad is None else e.grad.numpy()
        scale = max(1.0, np.abs(expected_grad).max())
        np.testing.assert_allclose(ctx[p.grad] / scale, expected_grad / scale, rtol=1e-3, atol=10 * TOLERANCE[kind])


@pytest.mark.parametrize("seed", range(RANDOM_SHAPES))
def test_random_stacks_and_forms(ctx, seed):
    """Stacks broadcast as in NumPy; a map and two output axes hold the same matrix."""
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 6, 2)
    stack = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    a, b = rng.normal(size=(*stack, n, n)) + 3 * np.eye(n), rng.normal(size=(n, k))
    for form in (0, 1):
        x = oc.tensor(a, batch_axes=len(stack), input_axes=form)
        y = oc.tensor(b, input_axes=int(rng.integers(0, 2)))
        np.testing.assert_allclose(LINALG.solve(x, y).numpy(ctx), np.linalg.solve(a, b), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(LINALG.inv(x).numpy(ctx), np.linalg.inv(a), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(LINALG.slogdet(x)[1].numpy(ctx), np.linalg.slogdet(a)[1], rtol=1e-9, atol=1e-12)
        rectangle = rng.normal(size=(*stack, n, k))
        u, s, vh = LINALG.svd(oc.tensor(rectangle, batch_axes=len(stack), input_axes=form))
        product = (u.numpy(ctx) * s.numpy(ctx)[..., None, :]) @ vh.numpy(ctx)
        np.testing.assert_allclose(product, rectangle, atol=1e-12)
        q, r = LINALG.qr(oc.tensor(rectangle, batch_axes=len(stack), input_axes=form))
        np.testing.assert_allclose(q.numpy(ctx) @ r.numpy(ctx), rectangle, atol=1e-12)
    oc.testing.gradcheck(LINALG.solve, a.reshape(-1, n, n)[0], b)
    oc.testing.gradcheck(lambda b: LINALG.solve(oc.tensor(a, batch_axes=len(stack)), b), b)


def test_lu():
    pytest.importorskip("scipy", minversion="1.12")
    a = RNG.normal(size=(2, 4, 4))
    p, l, u = LINALG.lu(oc.tensor(a, batch_axes=1, input_axes=1))
    assert str(p.shape) == str(l.shape) == "2|4->4"
    np.testing.assert_allclose(p.numpy() @ l.numpy() @ u.numpy(), a, atol=1e-12)
    oc.testing.gradcheck(lambda a: weighted(LINALG.lu(a)[1:], oc.tensor), a[0])


@pytest.mark.parametrize("settings", [{}, {"lower": False}, {"transpose": True}, {"lower": False, "transpose": True}])
@pytest.mark.parametrize("n", [16, 17, 40, 70])
def test_triangular_systems_of_several_blocks(settings, n, monkeypatch):
    a, b = regular(3, n, n) + n * np.eye(n), RNG.normal(size=(n, 2))
    triangle = np.tril(a) if settings.get("lower", True) else np.triu(a)
    expected = np.linalg.solve(np.swapaxes(triangle, -1, -2) if settings.get("transpose") else triangle, b)
    for _ in range(2):
        x = LINALG.solve_triangular(oc.tensor(a, batch_axes=1), b, **settings)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-9, atol=1e-12)
        monkeypatch.setitem(sys.modules, "scipy.linalg", None)


def test_values_without_vectors(ctx):
    """Operands without gradient need no vectors."""
    a = RNG.normal(size=(2, 3, 5))
    s = symmetric(2, 4, 4)
    values = LINALG.svdvals(oc.tensor(a, batch_axes=1, input_axes=1))
    assert values.application.operation.name == "svdvals"
    np.testing.assert_allclose(values.numpy(ctx), np.linalg.svd(a, compute_uv=False), rtol=1e-12)
    values = LINALG.eigvalsh(oc.tensor(s, batch_axes=1))
    assert values.application.operation.name == "eigvalsh"
    np.testing.assert_allclose(values.numpy(ctx), np.linalg.eigvalsh(s), rtol=1e-9, atol=1e-12)


def test_large_matrices(monkeypatch):
    """Those that SciPy decomposes one by one."""
    a, b = regular(2, 70, 70), RNG.normal(size=(70, 2))
    a[1] = a[1, ::-1]
    x, s = oc.tensor(a, batch_axes=1), oc.tensor(definite(2, 70, 70), batch_axes=1)
    for _ in range(2):
        np.testing.assert_allclose(LINALG.solve(x, b).numpy(), np.linalg.solve(a, b), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(LINALG.inv(x).numpy(), np.linalg.inv(a), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(LINALG.cholesky(s).numpy(), np.linalg.cholesky(s.numpy()), rtol=1e-9, atol=1e-12)
        q, r = (t.numpy() for t in LINALG.qr(x))
        np.testing.assert_allclose(q @ r, a, atol=1e-12)
        np.testing.assert_allclose(np.swapaxes(q, -1, -2) @ q, [np.eye(70)] * 2, atol=1e-12)
        for ours, theirs in zip(LINALG.slogdet(x), np.linalg.slogdet(a), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-10)
        with pytest.raises(oc.HostCallError, match="Singular matrix"):
            LINALG.inv(np.zeros((70, 70))).numpy()
        with pytest.raises(oc.HostCallError, match="not positive definite"):
            LINALG.cholesky(-np.eye(70)).numpy()
        monkeypatch.setitem(sys.modules, "scipy.linalg", None)


@pytest.mark.parametrize("dims", [(66, 66), (90, 66), (66, 90), (2, 65, 67)])
@pytest.mark.parametrize("form", [0, 1])
def test_columns_of_large_decompositions_are_computed_where_they_are_read(dims, form):
    pytest.importorskip("scipy")
    a = RNG.normal(size=dims)
    q, r = LINALG.qr(oc.tensor(a, batch_axes=len(dims) - 2, input_axes=form))
    assert q.application.operation.name == "qr columns"
    expected = np.linalg.qr(a)
    np.testing.assert_allclose(r.numpy(), expected[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(q.numpy(), expected[0], rtol=1e-9, atol=1e-11)
    assert len(q.shape.input) == len(r.shape.input) == form


@pytest.mark.parametrize("form", [0, 1])
def test_values_and_gradients_of_large_systems_share_a_decomposition(form, monkeypatch):
    pytest.importorskip("scipy")
    a, b, w = regular(2, 65, 65), RNG.normal(size=(65, 3)), RNG.normal(size=(2, 65, 3))
    calls = []
    factorize = lapack.factorize
    monkeypatch.setattr(lapack, "factorize", lambda a: calls.append(a.shape) or factorize(a))
    for sides in (b, b[:, 0]):
        x = oc.param("a", a, batch=[2], input=[65] * form, output=[65] * (2 - form))
        y = oc.param("b", sides)
        ctx, weights = oc.Context(), w if sides.ndim == 2 else w[..., 0]
        loss = (LINALG.solve(x, y) * oc.tensor(weights, batch_axes=1)).sum() + LINALG.slogdet(x)[1].sum()
        ctx.init(loss)
        ctx.compile(train.grad_update(loss), keep=[x.grad, y.grad])()
        inverse = np.linalg.inv(a)
        solution = np.swapaxes(inverse, -1, -2) @ weights.reshape(2, 65, -1)
        values = inverse @ sides.reshape(65, -1)
        np.testing.assert_allclose(ctx[y.grad], solution.sum(0).reshape(sides.shape), rtol=1e-7, atol=1e-9)
        expected = -solution @ np.swapaxes(values, -1, -2) + np.swapaxes(inverse, -1, -2)
        np.testing.assert_allclose(ctx[x.grad], expected, rtol=1e-7, atol=1e-9)
    assert calls == [a.shape] * 4


@pytest.mark.parametrize("dtype", [oc.bfloat16, oc.float16])
def test_decompositions_of_narrow_types_are_not_stored(dtype):
    """Pivots above 256 are no numbers of bfloat16."""
    order = RNG.permutation(300)
    permutation, b = np.eye(300)[order], np.arange(300.0) % 100
    a = oc.param("a", permutation, dtype=dtype, input=[300], output=[300])
    x, (sign, _) = LINALG.solve(a, oc.param("b", b, dtype=dtype)), LINALG.slogdet(a)
    ctx = oc.Context()
    loss = x.sum() + sign
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[x, sign])()
    np.testing.assert_array_equal(ctx[x], permutation.T @ b)
    assert ctx[sign] == round(np.linalg.det(permutation))
    q, r = LINALG.qr(oc.tensor(permutation, dtype=dtype, input_axes=1))
    np.testing.assert_allclose(np.abs((q @ r).numpy()), permutation, atol=1e-2)


def test_a_singular_matrix_is_refused_or_has_no_determinant():
    pytest.importorskip("scipy")
    b = RNG.normal(size=(65, 3))
    singular = oc.param("a", np.zeros((65, 65)))
    with pytest.raises(oc.HostCallError, match="Singular matrix"):
        LINALG.solve(singular, b).numpy()
    assert LINALG.slogdet(singular)[1].numpy() == -np.inf


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    a, b = regular(4, 4), RNG.normal(size=(4, 2))
    for settings in ({}, {"lower": False, "transpose": True}, {"unit_diagonal": True}):
        oc.testing.gradcheck(lambda a, b, s=settings: LINALG.solve_triangular(a, b, **s), a, b)
    oc.testing.gradcheck(LINALG.cholesky, definite(3, 3))
    with pytest.raises(oc.Unsupported, match=r'oc.linalg.lu needs SciPy; run: pip install "ocannl-core\[linalg\]"'):
        LINALG.lu(oc.tensor(a))


@pytest.mark.parametrize(
    ("function", "matrix"),
    [
        (LINALG.det, [[1.0, 2.0], [2.0, 4.0]]),
        (LINALG.det, np.zeros((3, 3))),
        (lambda a: (LINALG.eigvalsh(a) ** 2).sum(), np.eye(3)),
        (lambda a: (LINALG.svdvals(a) ** 2).sum(), np.diag([2.0, 2.0, 1.0])),
        (lambda a: LINALG.norm(a, "nuc"), np.diag([2.0, 2.0, 1.0])),
    ],
)
def test_gradients_of_degenerate_matrices(function, matrix):
    oc.testing.gradcheck(function, matrix)


@pytest.mark.parametrize("dims", [(0, 0), (1, 1)])
def test_tiny_matrices(ctx, dims):
    a = np.full(dims, 4.0)
    for name in ("inv", "cholesky", "det"):
        np.testing.assert_array_equal(getattr(LINALG, name)(oc.tensor(a)).numpy(ctx), getattr(np.linalg, name)(a))


def test_integers_and_narrow_floats_are_converted(ctx):
    integers = oc.tensor(np.array([[2, 0], [0, 4]]), label="whole")
    np.testing.assert_array_equal(LINALG.inv(integers).numpy(ctx), [[0.5, 0], [0, 0.25]])
    half = oc.tensor(np.array([[2, 0], [0, 4]], "float16"))
    inverse = LINALG.inv(half)
    assert inverse.dtype.name == "float16"
    np.testing.assert_array_equal(inverse.numpy(ctx), [[0.5, 0], [0, 0.25]])


@pytest.mark.parametrize(
    ("function", "matrix", "message"),
    [
        (LINALG.inv, np.ones((2, 2)), "host call `inv` of routine `.*` failed: LinAlgError: Singular matrix"),
        (LINALG.cholesky, -np.eye(2), "host call `cholesky` of routine .*not positive definite"),
        (lambda a: LINALG.solve_triangular(a, np.ones(2)), np.zeros((2, 2)), "host call `solve_triangular` .*Singular"),
        (lambda a: LINALG.svd(a)[1], np.full((2, 2), np.nan), "host call `svd` of routine .*not converge"),
    ],
)
def test_failures_at_run_time(ctx, function, matrix, message):
    with pytest.raises(oc.HostCallError, match=message):
        function(oc.tensor(matrix)).numpy(ctx)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: LINALG.inv(np.ones((2, 3))), oc.ShapeError, "2"),
        (lambda: LINALG.inv(np.ones(3)), oc.ShapeError, "axes"),
        (lambda: LINALG.svd(np.ones(3)), oc.ShapeError, r"sizes \(3,\) is not a matrix, which has two axes"),
        (lambda: LINALG.solve(np.eye(2), np.ones(3)), oc.ShapeError, "3"),
        (lambda: LINALG.norm(np.eye(2), 3), oc.CodeError, "the order of a matrix norm must be"),
        (lambda: LINALG.matrix_power(np.eye(2), 0.5), oc.CodeError, "the power must be an integer, not 0.5"),
        (lambda: LINALG.pinv(np.eye(2), rtol=-1.0), oc.CodeError, "`rtol` must be a number that is not negative"),
        (lambda: LINALG.inv(), oc.ArgumentError, "a"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()

"""Operations that are definitions over others: values on every backend as NumPy has them, in several types, with NaN
and infinities; gradients as differences have them, and the same on every backend."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.testing.gradients import gradients_of

Array = np.ndarray[Any, Any]

NAN, INF = np.nan, np.inf
ODD = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 1e-9, -1e-9, 3.7, 1e15, -1e15, -30.0, 30.0])


@dataclass(frozen=True)
class Row:
    """One function in both languages. Of `t,c` the spec takes `t` away.

    kinds       the types that it is tried in
    is_smooth   has a gradient
    odd         is tried on numbers that are none, too
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((5, 3),)
    kinds: str = "float32 float64"
    is_smooth: bool = True
    odd: bool = True


ALL = "float32 float64 int32 uint8"
PAIR = ((5, 3), (5, 3))
T = "t,c => c"


def windows(x: Array, size: int, step: int) -> Array:
    """All windows of a vector of cells."""
    return np.stack([x[n : n + size] for n in range(0, len(x) - size + 1, step)])


def exp_shares(x: Array) -> Array:
    e = np.exp(x - x.max(0))
    return e / e.sum(0)


def log_sum(x: Array) -> Array:
    largest = np.where(np.isfinite(x.max(0)), x.max(0), 0)
    return np.log(np.exp(x - largest).sum(0)) + largest


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-abs(x)))


def convolved(x: Array, k: Array, stride: int = 1) -> Array:
    return np.einsum("okc,kcd->od", windows(x, len(k), stride), k)


def spread(x: Array, k: Array, stride: int) -> Array:
    out = np.zeros((stride * (len(x) - 1) + len(k), k.shape[-1]), x.dtype)
    for index, cell in enumerate(x):
        out[stride * index : stride * index + len(k)] += np.einsum("c,kcd->kd", cell, k)
    return out


ROWS = (
    # of each cell
    Row("sign", oc.sign, np.sign, kinds="float32 float64 int32", is_smooth=False),
    Row("floor", oc.floor, np.floor, kinds=ALL, is_smooth=False),
    Row("ceil", oc.ceil, np.ceil, kinds=ALL, is_smooth=False),
    Row("round", lambda x: x.round(), np.round, kinds=ALL, is_smooth=False),
    Row("isnan", oc.isnan, np.isnan, kinds=ALL, is_smooth=False),
    Row("isinf", oc.isinf, np.isinf, kinds=ALL, is_smooth=False),
    Row("isfinite", oc.isfinite, np.isfinite, kinds=ALL, is_smooth=False),
    Row("log1p", oc.log1p, np.log1p),
    Row("expm1", oc.expm1, np.expm1),
    Row("logaddexp", oc.logaddexp, np.logaddexp, PAIR),
    Row("softplus", oc.softplus, lambda x: np.logaddexp(x, 0)),
    Row("leaky_relu", lambda x: oc.leaky_relu(x, slope=0.1), lambda x: np.where(x > 0, x, x.dtype.type(0.1) * x)),
    Row("elu", lambda x: oc.elu(x, alpha=0.5), lambda x: np.where(x > 0, x, x.dtype.type(0.5) * np.expm1(x))),
    Row("clip", lambda x: oc.clip(x, -1, 2), lambda x: np.clip(x, -1, 2), kinds="float32 float64 int32"),
    Row("clip by tensors", lambda x, low: x.clip(low), np.maximum, PAIR, ALL),
    Row("astype", lambda x: x.astype(oc.float64), lambda x: x.astype("float64"), kinds=ALL),
    # reductions
    Row("prod", lambda x: x.prod(T), lambda x: x.prod(0)),
    Row("prod of all", lambda x: oc.prod(x), np.prod),
    Row("any", lambda x: x.any(T), lambda x: x.any(0), kinds=ALL, is_smooth=False),
    Row("all", lambda x: x.all(T), lambda x: x.all(0), kinds=ALL, is_smooth=False),
    Row("any of one", lambda x: x.any(), np.any, ((1,),), ALL, is_smooth=False),
    Row("all of one", lambda x: x.all(), np.all, ((1,),), ALL, is_smooth=False),
    Row("count_nonzero", lambda x: x.count_nonzero(T), lambda x: np.count_nonzero(x, 0), kinds=ALL, is_smooth=False),
    Row("var", lambda x: x.var(T), lambda x: x.var(0)),
    Row("sample var", lambda x: x.var(sample=True), lambda x: x.var(ddof=1)),
    Row("std", lambda x: x.std(), np.std),
    Row("sample std", lambda x: x.std(T, sample=True), lambda x: x.std(0, ddof=1)),
    Row("norm", lambda x: oc.norm(x), np.linalg.norm),
    Row("norm 1", lambda x: x.norm(T, ord=1), lambda x: np.linalg.norm(x, 1, axis=0)),
    Row("norm inf", lambda x: x.norm(T, ord=INF), lambda x: np.linalg.norm(x, INF, axis=0)),
    # along an axis
    Row("cumsum", lambda x: x.cumsum(T), lambda x: x.cumsum(0, dtype=x.dtype), kinds=ALL),
    Row("cumprod", lambda x: x.cumprod(T), lambda x: x.cumprod(0, dtype=x.dtype), kinds=ALL),
    Row("cummax", lambda x: oc.cummax(x, T), lambda x: np.maximum.accumulate(x, 0), kinds=ALL),
    Row("cummin", lambda x: oc.cummin(x, T), lambda x: np.minimum.accumulate(x, 0), kinds=ALL),
    Row("flip", lambda x: oc.flip(x, T), lambda x: x[::-1], kinds=ALL),
    Row("roll", lambda x: oc.roll(x, 2, T), lambda x: np.roll(x, 2, 0), kinds=ALL),
    Row("roll back", lambda x: oc.roll(x, -9, "t,c => t"), lambda x: np.roll(x, -9, 1), kinds=ALL),
    Row("argmax", lambda x: x.argmax(T), lambda x: x.argmax(0), kinds=ALL, is_smooth=False),
    Row("argmin", lambda x: x.argmin(T), lambda x: x.argmin(0), kinds=ALL, is_smooth=False),
    # scores
    Row("softmax", lambda x: x.softmax(T), exp_shares),
    Row("log_softmax", lambda x: x.log_softmax(T), lambda x: x - x.max(0) - np.log(np.exp(x - x.max(0)).sum(0))),
    Row("logsumexp", lambda x: x.logsumexp(T), log_sum),
    Row("cross entropy", oc.cross_entropy, lambda x, p: -(p * (x - log_sum(x))).sum(), ((4,), (4,)), odd=False),
    # matrices
    Row("dot", oc.dot, np.dot, ((4,), (4,)), "float32 float64 int32"),
    Row("outer", oc.outer, np.outer, ((4,), (3,)), ALL),
    Row("diag", oc.diag, np.diag, ((4,),), ALL),
    Row("diagonal", oc.diagonal, np.diagonal, ((4, 4),), ALL),
    Row("trace", oc.trace, np.trace, ((4, 4),), "float32 float64 int32"),
    Row("triu", lambda x: oc.triu(x, 1), lambda x: np.triu(x, 1), kinds=ALL),
    Row("tril", lambda x: oc.tril(x, -1), lambda x: np.tril(x, -1), kinds=ALL),
    # windows
    Row("conv1d", oc.conv1d, convolved, ((6, 2), (3, 2, 4)), "float32 float64 int32"),
    Row("strided conv1d", lambda x, k: oc.conv1d(x, k, stride=2), lambda x, k: convolved(x, k, 2), ((7, 2), (3, 2, 4))),
    Row("conv_transpose1d", lambda x, k: oc.conv_transpose1d(x, k, stride=2), lambda x, k: spread(x, k, 2),
        ((4, 2), (3, 2, 4)), "float32 float64 int32"),
    Row("max_pool1d", lambda x: oc.max_pool1d(x, 3, 2), lambda x: windows(x, 3, 2).max(1), ((7, 2),), ALL),
    Row("avg_pool1d", lambda x: oc.avg_pool1d(x, 3, 2), lambda x: windows(x, 3, 2).mean(1), ((7, 2),)),
)  # fmt: skip

DRAWN = [(row, kind) for row in ROWS for kind in row.kinds.split()]


def value(backend: str, t: oc.Tensor) -> Array:
    with oc.settings(cache=False):
        ctx = oc.Context(backend)
        ctx.run(t.forward)
        return np.asarray(ctx[t])


def numbers(row: Row, kind: str) -> list[Array]:
    rng = np.random.default_rng(len(row.name))
    if kind.startswith("float"):
        return [rng.uniform(0.1, 2.0, size=shape).astype(kind) for shape in row.shapes]
    return [rng.integers(0 if kind.startswith("u") else -4, 6, size=shape).astype(kind) for shape in row.shapes]


def agree(got: Array, want: Array, kind: str) -> None:
    tolerance = {"float32": 3e-6, "float64": 1e-13}.get(kind, 0)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, np.asarray(want, got.dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("row", "kind"), DRAWN, ids=lambda x: getattr(x, "name", x))
def test_values_are_those_of_numpy(row: Row, kind: str, backend: str) -> None:
    arrays = numbers(row, kind)
    agree(value(backend, row.ours(*map(oc.tensor, arrays))), row.theirs(*arrays), kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("row", [row for row in ROWS if row.odd], ids=lambda row: row.name)
def test_what_is_no_number_goes_where_it_does_in_numpy(row: Row, kind: str, backend: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(4):
        arrays = [rng.choice(ODD, size=shape).astype(kind) for shape in row.shapes]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agree(value(backend, row.ours(*map(oc.tensor, arrays))), row.theirs(*arrays), kind)


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_smooth], ids=lambda row: row.name)
def test_gradients_are_those_of_differences(row: Row) -> None:
    oc.testing.gradcheck(row.ours, *numbers(row, "float64"))


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_smooth], ids=lambda row: row.name)
def test_gradients_are_the_same_on_every_backend(row: Row, backend: str) -> None:
    params = [oc.param(f"x{n}", array) for n, array in enumerate(numbers(row, "float64"))]
    loss = (row.ours(*params) ** 2).sum()
    with oc.settings(cache=False):
        ctx = oc.Context(backend)
        ctx.init(loss)
        ctx.compile(train.grad_update(loss), keep=[p.grad for p in params])()
    for p, want in zip(params, gradients_of(loss, *params), strict=True):
        np.testing.assert_allclose(ctx[p.grad], want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.is_smooth], ids=lambda row: row.name)
def test_where_a_result_jumps_there_is_no_gradient(row: Row) -> None:
    assert not row.ours(*(oc.param(f"x{n}", a) for n, a in enumerate(numbers(row, "float32")))).has_gradient


OVER = ["cumsum", "cumprod", "cummax", "cummin", "flip", "softmax", "log_softmax", "triu", "sign", "prod", "any", "all"]


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in OVER], ids=lambda row: row.name)
def test_axes_of_size_one_and_zero(row: Row, backend: str) -> None:
    for shape in ((1, 3), (5, 1), (1, 1), (5, 0)):
        arrays = np.random.default_rng(0).normal(size=shape)
        agree(value(backend, row.ours(oc.tensor(arrays))), row.theirs(arrays), "float64")


@pytest.mark.parametrize(
    ("make", "x", "want"),
    [
        # beside infinite scores the others vanish
        (lambda x: oc.logsumexp(x), [1e15, INF, -INF], [0, NAN, 0]),
        (lambda x: oc.logsumexp(x), [-INF, -INF], [0, 0]),
        (lambda x: oc.logsumexp(x), [3.0, -INF], [1, 0]),
        # the product of the others, whatever this one is
        (lambda x: x.prod(), [2.0, INF, 3.0], [INF, 6, INF]),
        (lambda x: x.prod(), [2.0, 0.0, 3.0], [0, 6, 0]),
        (lambda x: x.prod(), [2.0, 0.0, 0.0], [0, 0, 0]),
        (lambda x: x.prod(), [2.0, NAN, 3.0], [NAN, 6, NAN]),
        # deviations from an infinite mean
        (lambda x: x.var(), [1.0, INF], [-INF, NAN]),
        (lambda x: oc.pow(oc.stop_gradient(0.0 * x), x - 3.0), [1.0], [-INF]),
        (lambda x: oc.mod(-1.0, x), [INF], [1]),
    ],
)
def test_gradients_of_what_is_no_number(make: Callable[..., Any], x: list[float], want: list[float]) -> None:
    p = oc.param("p", np.array(x))
    np.testing.assert_allclose(gradients_of(make(p), p)[0], want)


def test_axes_without_cells(backend: str) -> None:
    """Of nothing: the neutral element where there is one, and no number where there is none."""
    x = oc.tensor(np.zeros((2, 0)))
    for result, want in (
        (x.sum("ij => i"), 0), (x.prod("ij => i"), 1), (x.max("ij => i"), -INF), (x.min("ij => i"), INF),
        (x.any("ij => i"), 0), (x.all("ij => i"), 1), (x.count_nonzero("ij => i"), 0), (x.mean("ij => i"), NAN),
        (x.var("ij => i"), NAN), (x.var("ij => i", sample=True), NAN), (x.std("ij => i"), NAN), (x.norm("ij => i"), 0),
        (x.logsumexp("ij => i"), -INF),
    ):  # fmt: skip
        np.testing.assert_array_equal(value(backend, result), [want, want])
    for result in (x.softmax("ij => i"), x.log_softmax("ij => i"), x.cumsum("ij => i")):
        assert value(backend, result).shape == (2, 0)
    both = oc.concat("k, i; k, j => k, i^j", x, x)
    assert value(backend, both).shape == (2, 0)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 33])
def test_running_operations_meet_every_cell_once(name: str, n: int) -> None:
    """However many steps that takes: values and gradients, also where cells are equal or zero."""
    rng = np.random.default_rng(n)
    run = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[name].accumulate
    x = rng.integers(-1, 3, size=(2, n)).astype("float64")
    p, g = oc.param("p", x), rng.normal(size=(2, n))
    result = getattr(oc, name)(p, "ij => i")
    agree(value("numpy", getattr(oc, name)(oc.tensor(x), "ij => i")), run(x, 1), "float64")
    want = np.zeros_like(x)
    for i in range(2):
        for j in range(n):
            if name == "cumsum":
                want[i, : j + 1] += g[i, j]
            elif name == "cumprod":
                want[i, : j + 1] += [g[i, j] * np.prod(np.delete(x[i, : j + 1], k)) for k in range(j + 1)]
            else:
                hit = x[i, : j + 1] == run(x[i])[j]
                want[i, : j + 1] += g[i, j] * hit / hit.sum()
    got = gradients_of((result * oc.tensor(g)).sum(), p)[0]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())


def test_an_extreme_that_no_number_exceeds_shares_its_gradient() -> None:
    p = oc.param("p", np.array([-INF, -INF, 1.0]))
    np.testing.assert_array_equal(gradients_of(oc.cummax(p).sum(), p)[0], [1.5, 0.5, 1])


def test_long_axes_are_walked_in_a_time_that_grows_with_them(backend: str) -> None:
    """Where each place met each, this would take minutes."""
    x = np.random.default_rng(0).normal(size=2 * 10**5)
    p = oc.param("p", x)
    loss = (p.cumsum() * 1e-3).sum() + oc.cummax(p).sum()
    with oc.settings(cache=False):
        ctx = oc.Context(backend)
        ctx.init(loss)
        ctx.compile(train.grad_update(loss), keep=[p.grad])()
    top = np.maximum.accumulate(x)
    first = np.flatnonzero(np.diff(top, prepend=-INF) > 0)
    want = np.arange(len(x), 0, -1) * 1e-3
    want[first] += np.diff(first, append=len(x))
    np.testing.assert_allclose(ctx[p.grad], want, rtol=1e-9)
    np.testing.assert_allclose(ctx[loss], (np.cumsum(x) * 1e-3).sum() + top.sum(), rtol=1e-9)

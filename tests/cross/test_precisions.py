"""Every precision from end to end, on every backend: values as NumPy and ml_dtypes have them, gradients, casts between
all pairs, and sums of narrow numbers, which are made in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.precision import PRECISIONS, Family, Precision, promote

Array = np.ndarray[Any, Any]

FLOATS = [p for p in PRECISIONS if p.is_float]
NARROW = [p for p in FLOATS if p.nbytes < 4]
INTEGERS = [p for p in PRECISIONS if p.family in (Family.SIGNED, Family.UNSIGNED)]

every = pytest.mark.parametrize("p", PRECISIONS, ids=str)
floats = pytest.mark.parametrize("p", FLOATS, ids=str)
narrow = pytest.mark.parametrize("p", NARROW, ids=str)
integers = pytest.mark.parametrize("p", INTEGERS, ids=str)


def eps(p: Precision) -> float:
    return float(ml_dtypes.finfo(p.numpy).eps)


def numbers(p: Precision, *shape: int, seed: int = 0) -> Array:
    """Of a size that every type has."""
    drawn = np.random.default_rng(seed).normal(size=shape)
    if p.is_float:
        return drawn.astype(p.numpy)
    return (drawn > 0 if p.family is Family.BOOL else np.abs(10 * drawn).astype(int)).astype(p.numpy)


def edges(p: Precision) -> Array:
    """The ends of a type, and what lies around nothing."""
    if p.family is Family.BOOL:
        return np.array([False, True])
    if not p.is_float:
        info = np.iinfo(p.numpy)
        return np.array([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], p.numpy)
    f = ml_dtypes.finfo(p.numpy)
    ends = [f.max, f.tiny, f.smallest_subnormal, 1, 1 + f.eps, 3.14159]
    return np.array([*ends, *(-end for end in ends), 0.0, -0.0, np.inf, -np.inf, np.nan]).astype(p.numpy)


def computed(ctx: oc.Context, t: oc.Tensor) -> Array:
    got = t.eval(ctx)
    assert got.dtype == t.dtype.numpy
    return got


def same(got: Array, want: Array) -> None:
    """The same numbers, in the same type."""
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def close(got: Array, want: Array, p: Precision, steps: float = 2) -> None:
    """Within some steps of the type, relative to the largest number."""
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    off = steps * eps(p) * np.abs(want).max(initial=0.1)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=off)


def wide(a: Array, p: Precision) -> Array:
    """In the type that arithmetic runs in."""
    return a.astype(np.int32 if p.family is Family.BOOL else p.arithmetic.numpy)


# --- values ----------------------------------------------------------------------------------------------------------


@every
def test_numbers_come_back_as_they_went(ctx: oc.Context, p: Precision) -> None:
    numbers_of_type = edges(p)
    x, copy = oc.placeholder("x", output=[numbers_of_type.size], dtype=p), oc.tensor(numbers_of_type)
    ctx[x] = numbers_of_type
    assert copy.dtype is p
    same(ctx[x], numbers_of_type)
    same(computed(ctx, copy), numbers_of_type)
    same(computed(ctx, oc.stack([x, copy])), np.stack([numbers_of_type, numbers_of_type]))


@every
def test_cells_that_move_keep_their_type(ctx: oc.Context, p: Precision) -> None:
    cells = edges(p)[:6]
    x, ids = oc.tensor(cells), oc.tensor(np.array([1, 0]))
    same(computed(ctx, oc.concat("a; b => a^b", x, x)), np.concatenate([cells, cells]))
    same(computed(ctx, oc.flip(x)), cells[::-1])
    same(computed(ctx, oc.roll(x, 1)), np.roll(cells, 1))
    same(computed(ctx, x.take(ids)), cells[[1, 0]])


BINARY: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
COMPARED: dict[str, Callable[..., Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@pytest.mark.sample(covering=("name p", "name backend", "p backend"))
@every
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_is_rounded_once(ctx: oc.Context, p: Precision, name: str) -> None:
    a, b = (m.ravel() for m in np.meshgrid(edges(p), edges(p)))
    with np.errstate(all="ignore"):
        want = BINARY[name](wide(a, p), wide(b, p)).astype(p.numpy)
    same(computed(ctx, getattr(oc, name)(oc.tensor(a), oc.tensor(b))), want)


@pytest.mark.sample(covering=("name p", "name backend", "p backend"))
@every
@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_are_ones_and_zeros_of_the_type(ctx: oc.Context, p: Precision, name: str) -> None:
    a, b = (m.ravel() for m in np.meshgrid(edges(p), edges(p)))
    want = COMPARED[name](wide(a, p), wide(b, p)).astype(p.numpy)
    same(computed(ctx, getattr(oc, name)(oc.tensor(a), oc.tensor(b))), want)
    chosen = oc.where(getattr(oc, name)(oc.tensor(a), oc.tensor(b)), oc.tensor(a), oc.tensor(b))
    same(computed(ctx, chosen), np.where(want, a, b))


@floats
def test_functions_are_rounded_to_the_type(ctx: oc.Context, p: Precision) -> None:
    a = np.abs(numbers(p, 40)) + p.numpy.type(0.125)
    x = oc.tensor(a)
    for name in ("exp", "log", "sqrt", "sin", "tanh", "recip", "sigmoid"):
        exact = {"recip": lambda v: 1 / v, "sigmoid": lambda v: 1 / (1 + np.exp(-v))}.get(name) or getattr(np, name)
        close(computed(ctx, getattr(oc, name)(x)), exact(a.astype(np.float64)), p)
    same(computed(ctx, 1 / x), (1 / wide(a, p)).astype(p.numpy))


@integers
def test_integers_keep_their_bits(ctx: oc.Context, p: Precision) -> None:
    a, b = (m.ravel() for m in np.meshgrid(edges(p), edges(p)))
    x, y = oc.tensor(a), oc.tensor(b)
    same(computed(ctx, oc.bitwise_and(x, y)), a & b)
    same(computed(ctx, oc.bitwise_or(x, y)), a | b)
    same(computed(ctx, oc.bitwise_xor(x, y)), a ^ b)
    positive = np.where(b == 0, 1, b).astype(p.numpy)
    if p.family is Family.UNSIGNED:
        same(computed(ctx, x % oc.tensor(positive)), a % positive)


# --- sums ------------------------------------------------------------------------------------------------------------

RANDOM_CASES = 5000


@narrow
def test_sums_of_narrow_numbers_are_made_in_float32(ctx: oc.Context, p: Precision) -> None:
    """One by one the numbers of the smaller types would stop to count at 16, those of bfloat16 at 256."""
    count = min(RANDOM_CASES, int(float(ml_dtypes.finfo(p.numpy).max)) - 20)
    a = np.ones((count, 2), p.numpy)
    x = oc.tensor(a)
    want = np.full(2, count, np.float64).astype(p.numpy)
    same(computed(ctx, x.sum("i,j => j")), want)
    same(computed(ctx, oc.einsum("ij; i => j", x, oc.tensor(a[:, 0]))), want)
    same(computed(ctx, oc.tensor(a.T, input_axes=1) @ oc.tensor(a[:, 0])), want)
    same(computed(ctx, x.mean("i,j => j")), np.ones(2, p.numpy))
    same(computed(ctx, x.var("i,j => j")), np.zeros(2, p.numpy))


@floats
def test_products_of_matrices(ctx: oc.Context, p: Precision) -> None:
    a, b = numbers(p, 17, 33), numbers(p, 33, 9, seed=1)
    got = computed(ctx, oc.einsum("ij;jk => ik", oc.tensor(a), oc.tensor(b)))
    close(got, a.astype(np.float64) @ b.astype(np.float64), p)


@integers
def test_sums_of_integers_wrap(ctx: oc.Context, p: Precision) -> None:
    a = np.full((300, 2), np.iinfo(p.numpy).max - 7, p.numpy)
    same(computed(ctx, oc.tensor(a).sum("i,j => j")), a.sum(0, dtype=p.numpy))
    b = numbers(p, 300)
    same(computed(ctx, oc.einsum("ij; i => j", oc.tensor(a), oc.tensor(b))), (a * b[:, None]).sum(0, dtype=p.numpy))


@every
def test_the_largest_and_the_smallest(ctx: oc.Context, p: Precision) -> None:
    first, last = edges(p)[0], edges(p)[-1] if not p.is_float else -edges(p)[0]
    for a in (numbers(p, 50, 3), np.full((4, 3), first), np.full((4, 3), last)):
        cells = wide(a, p)
        same(computed(ctx, oc.tensor(a).max("i,j => j")), cells.max(0).astype(p.numpy))
        same(computed(ctx, oc.tensor(a).min("i,j => j")), cells.min(0).astype(p.numpy))


def test_truth_values_are_counted(ctx: oc.Context) -> None:
    a = np.random.default_rng(0).normal(size=(300, 2)) > 0
    same(computed(ctx, oc.tensor(a).sum("i,j => j")), a.sum(0).astype(np.int32))
    same(computed(ctx, oc.tensor(a).all("i,j => j")), a.all(0))
    same(computed(ctx, oc.tensor(a).any("i,j => j")), a.any(0))


# --- casts -----------------------------------------------------------------------------------------------------------


def castable(source: Precision, target: Precision) -> Array:
    """Numbers of one type that have a place in the other."""
    cells = edges(source)
    if not source.is_float or target.is_float or target.family is Family.BOOL:
        return cells
    values, info = cells.astype(np.float64), np.iinfo(target.numpy)
    low, high = float(info.min), math.nextafter(float(info.max) + 1, 0)
    return cells[np.isfinite(values) & (values >= low) & (values <= high) & (values > low - 1)]


@pytest.mark.sample(covering=("source p", "source backend", "p backend"))
@every
@pytest.mark.parametrize("source", PRECISIONS, ids=str)
def test_casts(ctx: oc.Context, source: Precision, p: Precision) -> None:
    cells = np.concatenate([castable(source, p), numbers(source, 10)])
    if source.is_float and p.family is Family.UNSIGNED:
        cells = cells[cells.astype(np.float64) > -1]
    with np.errstate(all="ignore"):
        middle = cells.astype(np.float32) if source.nbytes < 4 and source.is_float else cells
        want = middle.astype(p.numpy)
    same(computed(ctx, oc.tensor(cells).astype(p)), want)


@floats
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_gradients_go_back_through_casts(ctx: oc.Context, source: Precision, p: Precision) -> None:
    w = oc.param("w", [1.0, -2.0, 0.5], dtype=source)
    factors = np.array([1.0, 3.0, -0.25])
    loss = (w.astype(p) * oc.tensor(factors.astype(p.numpy))).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    assert loss.dtype is p
    same(ctx[w.grad], factors.astype(source.numpy))


@floats
@pytest.mark.parametrize("q", FLOATS, ids=str)
def test_two_types_make_the_one_that_holds_both(ctx: oc.Context, q: Precision, p: Precision) -> None:
    a, b = numbers(p, 12), numbers(q, 12, seed=1)
    both = promote(p, q)
    got = computed(ctx, oc.tensor(a) * oc.tensor(b))
    same(got, (a.astype(both.arithmetic.numpy) * b.astype(both.arithmetic.numpy)).astype(both.numpy))


# --- gradients and training ------------------------------------------------------------------------------------------


@floats
def test_gradients(ctx: oc.Context, p: Precision) -> None:
    """Of a layer, against those of NumPy in float64 from the same rounded numbers."""
    x, w, b = numbers(p, 24, 7), numbers(p, 5, 7, seed=1), numbers(p, 5, seed=2)
    ours = oc.param("w", w, input=[7], output=[5]), oc.param("b", b)
    layer = ours[0] @ oc.tensor(x, batch_axes=1) + ours[1]
    loss = (oc.tanh(layer) * 0.125).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    x64, w64, b64 = (a.astype(np.float64) for a in (x, w, b))
    slope = 0.125 * (1 - np.tanh(x64 @ w64.T + b64) ** 2)
    assert ours[0].grad is not None and ours[0].grad.dtype is p
    close(ctx[ours[0].grad], slope.T @ x64, p, 8)
    close(ctx[ours[1].grad], slope.sum(0), p, 8)


@narrow
def test_gradients_of_what_is_broadcast_are_sums_in_float32(ctx: oc.Context, p: Precision) -> None:
    count = min(RANDOM_CASES, int(float(ml_dtypes.finfo(p.numpy).max)) - 20)
    b = oc.param("b", 0.0, o=[2], dtype=p)
    loss = (b + oc.tensor(np.zeros((count, 2), p.numpy), batch_axes=1)).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    same(ctx[b.grad], np.full(2, count, np.float64).astype(p.numpy))


@narrow
def test_values_and_gradients_of_different_types(ctx: oc.Context, p: Precision) -> None:
    """A gradient in float32 keeps what the type of the values would round away."""
    with oc.use_precision(p, gradients="float32"):
        w = oc.param("w", 1.0, o=[])
        loss = w * oc.placeholder("x", o=[]) + w * 2.0**-9
    (x,) = loss.inputs()
    ctx[x] = np.float32(1)
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    assert (w.dtype, x.dtype, loss.dtype) == (p, p, p)
    same(ctx[w.grad], np.array(np.float32(1 + float(np.float64(2.0**-9)))))


@floats
def test_a_step_of_descent(ctx: oc.Context, p: Precision) -> None:
    w = oc.param("w", [1.0, -2.0, 0.5], dtype=p)
    loss = (w * w).sum()
    ctx.init(loss)
    ctx.run(oc.seq(train.grad_update(loss), train.sgd(loss, 0.125)))
    same(ctx[w], np.array([0.75, -1.5, 0.375]).astype(p.numpy))


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        (lambda x: oc.where(x > 1, 0.1, 0.3) * x, lambda x: np.where(x > 1, 0.1, 0.3) * x),
        (lambda x: oc.sqrt(oc.tensor(2.0)) * x, lambda x: np.sqrt(2.0) * x),
        (lambda x: (oc.full(0.1) + 0.2) * x, lambda x: (0.1 + 0.2) * x),
        (lambda x: oc.exp(oc.tensor([0.1])) + x, lambda x: np.exp([0.1]) + x),
    ],
)
def test_constants_of_float64_expressions_are_computed_in_float64(
    ctx: oc.Context, expression: Callable[[Any], oc.Tensor], want: Callable[[Any], Any]
) -> None:
    x = np.array([0.5, 1.5, 2.5])
    np.testing.assert_allclose(computed(ctx, expression(oc.tensor(x))), want(x), rtol=4e-16)


def test_constants_alone_have_the_default_type() -> None:
    assert (oc.sqrt(oc.tensor(2.0)) + 1).dtype is oc.float32


# --- promotion and rounding, as published ----------------------------------------------------------------------------


def test_promotion_is_that_of_ml_dtypes() -> None:
    """Of a float beside an integer the float, as JAX has it; of two others what NumPy says, where it knows both."""
    for a in PRECISIONS:
        for b in PRECISIONS:
            got = promote(a, b)
            assert got is promote(b, a)
            if a.is_float != b.is_float:
                assert got is (a if a.is_float else b)
            elif "float8" in a.name + b.name or {a.name, b.name} == {"float16", "bfloat16"}:
                wider = max(a, b, key=lambda p: p.nbytes)
                assert got.nbytes >= wider.nbytes and (a is b) == (got is a and got is b)
                for kind in (a, b):
                    f, g = ml_dtypes.finfo(kind.numpy), ml_dtypes.finfo(got.numpy)
                    assert g.nmant >= f.nmant and float(g.max) >= float(f.max)
            else:
                assert got == np.promote_types(a.numpy, b.numpy)

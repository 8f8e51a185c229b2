"""The error of a sum is at most 64 eps times the sum of the absolute values of its terms, on every backend, whatever
the sum is fused with. The terms are chosen so that a single accumulator exceeds the bound: equal ones, and one large
term before many that are just lost when they are added to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocannl as oc
from ocannl import train

Array = np.ndarray[Any, Any]
WIDE = np.longdouble
BOUND = 64


def equal(shape: tuple[int, ...], eps: float) -> Array:
    return np.full(shape, 0.1)


def thirds(shape: tuple[int, ...], eps: float) -> Array:
    return np.full(shape, 1 / 3)


def lost(shape: tuple[int, ...], eps: float) -> Array:
    terms = np.full(shape, 0.99 * eps / 2)
    terms.reshape(-1)[0] = 1.0
    return terms


def cancelling(shape: tuple[int, ...], eps: float) -> Array:
    """Their sum is small compared with the terms."""
    return np.where(np.arange(np.prod(shape)) % 2, -0.9999, 1.0).reshape(shape)


TERMS = [equal, thirds, lost, cancelling]


def check(actual: Array, terms: Array, axes: tuple[int, ...] | None, eps: float) -> None:
    exact, magnitude = terms.sum(axes, WIDE), np.abs(terms).sum(axes, WIDE)
    errors = np.abs(np.asarray(actual).astype(WIDE) - exact) / (eps * np.maximum(magnitude, 1e-30))
    assert errors.max() <= BOUND, f"{float(errors.max()):.1f} eps"


def array_of(terms: Callable[[tuple[int, ...], float], Array], shape: tuple[int, ...], dtype: str = "float32") -> Array:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return terms(shape, float(ml_dtypes.finfo(kind).eps)).astype(kind)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("shape", [(65_536,), (632_100,), (700, 903), (3, 211, 1000), (1 << 15, 8)])
def test_totals(terms: Callable[..., Array], shape: tuple[int, ...], ctx: oc.Context) -> None:
    x = array_of(terms, shape)
    check(oc.tensor(x).sum().eval(ctx), x, None, 2.0**-23)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("terms", TERMS)
def test_totals_of_all_types(terms: Callable[..., Array], dtype: str, ctx: oc.Context) -> None:
    x = array_of(terms, (100_003,), dtype)
    x *= np.asarray(0.5 ** (10 if dtype == "float16" else 0), x.dtype)
    eps = float(ml_dtypes.finfo(x.dtype).eps)
    check(oc.tensor(x).sum().eval(ctx), x.astype(WIDE), None, eps)
    columns = x[:99_999].reshape(-1, 3)
    check(oc.einsum("i j => j", oc.tensor(columns)).eval(ctx), columns.astype(WIDE), (0,), eps)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize(("shape", "axis"), [((100_003, 7), 0), ((7, 100_003), 1), ((9973, 33), 0), ((1 << 15, 16), 0)])
def test_rows_and_columns(terms: Callable[..., Array], shape: tuple[int, ...], axis: int, ctx: oc.Context) -> None:
    x = array_of(terms, shape)
    check(oc.einsum("i j => i" if axis else "i j => j", oc.tensor(x)).eval(ctx), x, (axis,), 2.0**-23)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("shape", [(16, 8, 57, 57), (8, 3, 200, 200)])
def test_several_axes(terms: Callable[..., Array], shape: tuple[int, ...], ctx: oc.Context) -> None:
    x = array_of(terms, shape)
    check(oc.einsum("n c h w => c", oc.tensor(x)).eval(ctx), x, (0, 2, 3), 2.0**-23)
    last = np.moveaxis(x, 1, 3).copy()
    check(oc.einsum("n h w c => c", oc.tensor(last)).eval(ctx), last, (0, 1, 2), 2.0**-23)


@pytest.mark.parametrize("terms", TERMS)
def test_products_of_all_pairs(terms: Callable[..., Array], backend: str, ctx: oc.Context) -> None:
    """As many as 2^32 terms: the products of all pairs of numbers."""
    x = array_of(terms, (2000 if backend == "numpy" else 65_536,))
    actual, exact = oc.einsum("i; j =>", oc.tensor(x), oc.tensor(x)).eval(ctx), x.sum(dtype=WIDE)
    assert abs(actual - exact**2) <= BOUND * 2.0**-23 * np.abs(x).sum(dtype=WIDE) ** 2


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("shape", [(700, 903), (9973, 65), (4096, 257)])
def test_sums_fused_with_other_loops(terms: Callable[..., Array], shape: tuple[int, ...], ctx: oc.Context) -> None:
    x = array_of(terms, shape)
    doubled = oc.tensor(x) * 2.0
    scaled = oc.einsum("i j; i => i j", doubled, oc.recip(oc.einsum("i j => i", oc.abs(doubled))))
    outputs = [doubled, scaled]
    for t in (doubled, scaled):
        outputs += [t.sum(), oc.einsum("i j => j", t), oc.einsum("i j; i j =>", t, t)]
    values = oc.evaluate(outputs, ctx=ctx)
    for n, t in enumerate(values[:2]):
        wide = np.asarray(t, np.float64)
        check(values[3 * n + 2], t, None, 2.0**-23)
        check(values[3 * n + 3], t, (0,), 2.0**-23)
        check(values[3 * n + 4], wide * wide, None, 2.0**-23)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("terms", TERMS)
def test_sums_inside_of_other_operations(terms: Callable[..., Array], dtype: str, ctx: oc.Context) -> None:
    x = array_of(terms, (20_011,), dtype)
    t, eps, kept, ids = oc.tensor(x), float(np.finfo(dtype).eps), np.arange(len(x)) % 3 > 0, np.arange(len(x)) % 3
    check(t.mean().eval(ctx), x / WIDE(len(x)), None, eps)
    check(oc.where(oc.tensor(kept.astype(dtype)) > 0, t, 0.0).sum().eval(ctx), x[kept], None, eps)
    check(oc.cond(t.max() > -9.0, lambda v: (v * 1.0).sum(), lambda v: v.max(), t).eval(ctx), x, None, eps)
    check(oc.concat("a; b => a^b", t, t).sum().eval(ctx), np.concatenate([x, x]), None, eps)
    errors = np.abs(oc.cumsum(t).eval(ctx) - np.cumsum(x, dtype=WIDE)) / (eps * np.cumsum(np.abs(x), dtype=WIDE))
    assert errors.max() <= BOUND, f"{float(errors.max()):.1f} eps"
    segments = oc.segment_sum(t, oc.tensor(ids.astype("int32")), 3).eval(ctx)
    for n in range(3):
        check(segments[n], x[ids == n], None, eps)
    powers = np.exp(x.astype(WIDE) - x.max())
    check(oc.softmax(t).eval(ctx)[0], powers[:1] / powers.sum(), None, eps)
    bias = oc.param("bias", 0.0, output=[], dtype=dtype)
    loss = ((oc.tensor(x, batch_axes=1) + bias) * oc.tensor(x, batch_axes=1)).sum()
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[bias.grad])()
    check(ctx[bias.grad], x, None, eps)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("sizes", [(5, 20_003, 3), (64, 4096, 64), (33, 5000, 17), (1, 65_536, 40)])
def test_matrix_products(terms: Callable[..., Array], sizes: tuple[int, int, int], ctx: oc.Context) -> None:
    m, k, n = sizes
    x, w = array_of(terms, (m, k)), array_of(equal, (k, n))
    exact, magnitude = np.float64(x) @ np.float64(w), np.abs(np.float64(x)) @ np.float64(w)
    forms = {"i k; k j => i j": (x, w), "i k; j k => i j": (x, w.T), "k i; k j => i j": (x.T, w)}
    for spec, operands in forms.items():
        left, right = (oc.tensor(np.ascontiguousarray(operand)) for operand in operands)
        errors = np.abs(oc.einsum(spec, left, right).eval(ctx) - exact) / (2.0**-23 * magnitude)
        assert errors.max() <= BOUND, f"{spec}: {errors.max():.1f} eps"


@pytest.mark.slow
@given(data=st.data())
def test_any_reduction(data: st.DataObject, backends: list[str]) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 3, 8, 17, 64, 100, 257, 1000]), min_size=1, max_size=4)))
    while np.prod(shape) > 300_000:
        shape = shape[1:]
    names = "abcd"[: len(shape)]
    kept = "".join(data.draw(st.permutations([n for n in names if data.draw(st.booleans())])))
    x = array_of(data.draw(st.sampled_from(TERMS)), shape)
    axes = tuple(n for n, name in enumerate(names) if name not in kept)
    order = [sorted(kept).index(name) for name in kept]
    exact, magnitude = x.sum(axes, WIDE).transpose(order), np.abs(x).sum(axes, WIDE).transpose(order)
    factor = data.draw(st.sampled_from([None, 3.0]))
    for backend in backends:
        t = oc.tensor(x) if factor is None else oc.tensor(x) * factor
        total = oc.einsum(f"{' '.join(names)} => {' '.join(kept)}".strip(), t)
        value = oc.evaluate(total if factor is None else [t, total], ctx=oc.Context(backend))
        actual = value if factor is None else value[1] / np.longdouble(factor)
        errors = np.abs(actual - exact) / (2.0**-23 * np.maximum(magnitude, 1e-30))
        assert errors.max() <= BOUND + 1, (backend, shape, kept, float(errors.max()))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize(
    ("rows", "count", "width"),
    [(1, 150_000, 1), (10, 20_000, 3), (700, 20_000, 17), (15_000, 20_000, 17), (20_100, 20_000, 17)],
)
def test_gradients_of_rows_that_are_read_often(
    terms: Callable[..., Array], rows: int, count: int, width: int, dtype: str, ctx: oc.Context
) -> None:
    """All ids but a few are equal."""
    factors = array_of(terms, (count, width), dtype)
    ids = np.where(np.arange(count) % 1000 == 999, rows - 1, 0).astype("int32")
    table = oc.param("table", 1.0, output=[rows, width], dtype=dtype)
    loss = (table.take(oc.tensor(ids)) * oc.tensor(factors)).sum()
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[table.grad])()
    wide, exact, magnitude = factors.astype(WIDE), np.zeros((rows, width), WIDE), np.zeros((rows, width), WIDE)
    np.add.at(exact, ids, wide)
    np.add.at(magnitude, ids, np.abs(wide))
    errors = np.abs(np.asarray(ctx[table.grad]).astype(WIDE) - exact)
    eps = float(ml_dtypes.finfo(factors.dtype).eps)
    relative = errors / (eps * np.maximum(magnitude, 1e-30))
    assert relative.max() <= BOUND, f"{float(relative.max()):.1f} eps"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("terms", [lost, thirds])
@pytest.mark.parametrize(
    ("shape", "width"), [((20_100,), 1), ((20_100,), 3), ((70_000,), 1), ((300, 400), 1), ((150, 150), 17)]
)
def test_scatters_into_tables_larger_than_the_terms(
    shape: tuple[int, ...], width: int, terms: Callable[..., Array], dtype: str, ctx: oc.Context
) -> None:
    """Half of the terms belong to a few cells."""
    random, count = np.random.default_rng(0), 20_000
    x = array_of(terms, (count, width), dtype)
    ids = np.stack([random.integers(0, size, count) for size in shape], 1)
    ids[: count // 2] = 5 + np.arange(count // 2)[:, None] % 3
    table = oc.full(0.0, o=[*shape, width], dtype=dtype)
    actual = oc.scatter_nd(table, oc.tensor(ids.astype("int32")), oc.tensor(x), mode="add").eval(ctx)
    exact, magnitude = np.zeros((*shape, width), WIDE), np.zeros((*shape, width), WIDE)
    np.add.at(exact, tuple(ids.T), x.astype(WIDE))
    np.add.at(magnitude, tuple(ids.T), np.abs(x.astype(WIDE)))
    errors = np.abs(actual - exact) / (np.finfo(dtype).eps * np.maximum(magnitude, 1e-30))
    assert errors.max() <= BOUND, f"{float(errors.max()):.1f} eps"


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize(("rows", "width"), [(7, 300), (1, 257), (13, 256)])
@pytest.mark.parametrize("count", [95, 8_001])
def test_scatters_of_long_rows(rows: int, width: int, count: int, terms: Callable[..., Array], ctx: oc.Context) -> None:
    """Blocks of few terms are added in a wider type; a part of the ids is outside of the table, which is not empty."""
    x, base = array_of(terms, (count, width)), np.full((rows, width), 0.25, "float32")
    ids = np.random.default_rng(count).integers(0, rows + 2, count)
    ids[::3] = rows // 2
    table = oc.tensor(base)
    added, summed = oc.evaluate(
        [
            oc.index_update(table, oc.tensor(np.minimum(ids, rows - 1).astype("int32")), oc.tensor(x), mode="add"),
            oc.segment_sum(oc.tensor(x), oc.tensor(ids.astype("int32")), rows),
        ],
        ctx=ctx,
    )
    for n in range(rows):
        check(summed[n], x[ids == n], (0,), 2.0**-23)
        check(added[n], np.concatenate([base[n][None], x[np.minimum(ids, rows - 1) == n]]), (0,), 2.0**-23)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_of_scatters_of_long_rows(threads: int) -> None:
    """Parts do not depend on the number of threads; the last one may be shorter."""
    random = np.random.default_rng(0)
    for shape, count in (((8_003,), 7), ((9, 900), 3)):
        x, ids = random.normal(size=(*shape, 300)).astype("float32"), random.integers(0, count, shape).astype("int32")
        sums = oc.segment_sum(oc.tensor(x), oc.tensor(ids), count)
        expected, actual = (sums.eval(oc.Context("llvm", threads=n)) for n in (1, threads))
        np.testing.assert_array_equal(actual, expected)
        exact = np.zeros((count, 300))
        np.add.at(exact, ids.reshape(-1), x.reshape(-1, 300).astype(float))
        np.testing.assert_allclose(actual, exact, atol=2e-3)


def test_scatters_of_long_rows_that_are_infinite(ctx: oc.Context) -> None:
    x, ids = np.ones((900, 300), "float32"), np.arange(900) % 3
    x[4, 0], x[[5, 8], 0], x[6, 0], x[1:30:3, 1] = np.inf, [np.inf, -np.inf], np.nan, np.finfo("float32").max / 4
    with np.errstate(invalid="ignore", over="ignore"):
        expected = np.array([x[ids == n].sum(0) for n in range(3)])
    actual = oc.segment_sum(oc.tensor(x), oc.tensor(ids.astype("int32")), 3).eval(ctx)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("rows", [20_100, 70_000])
def test_single_cells_without_a_frequent_one(rows: int, ctx: oc.Context) -> None:
    """Strided indices, of which hashing puts no two in a bucket of many."""
    random = np.random.default_rng(0)
    x, ids = random.normal(size=20_000).astype("float32"), np.arange(20_000) % 200 * (rows // 200)
    ids[10_000:] = random.integers(0, rows, 10_000)
    expected = np.zeros(rows)
    np.add.at(expected, ids, x)
    actual = oc.segment_sum(oc.tensor(x), oc.tensor(ids.astype("int32")), rows).eval(ctx)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rows", [30, 3000])
def test_gradients_of_rows_that_are_infinite(rows: int, dtype: str, ctx: oc.Context) -> None:
    """The error of an infinite sum is not a number, and is left out."""
    factors, ids = np.ones((2500, 16), dtype), np.arange(2500) % 3
    factors[4, 0], factors[[5, 8], 0], factors[6, 0] = np.inf, [np.inf, -np.inf], np.nan
    factors[1:30:3, 1] = np.finfo(dtype).max / 4
    table = oc.param("table", 1.0, output=[rows, 16], dtype=dtype)
    loss = (table.take(oc.tensor(ids.astype("int32"))) * oc.tensor(factors)).sum()
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[table.grad])()
    with np.errstate(invalid="ignore", over="ignore"):
        expected = np.array([factors[ids == n].sum(0) for n in range(3)])
    assert np.isnan(expected[[0, 2], 0]).all() and np.isinf(expected[1, :2]).all()
    np.testing.assert_array_equal(ctx[table.grad][:3], expected)


@pytest.mark.parametrize("shape", [(3, 5), (64, 48)])
def test_gradients_of_weights_of_many_steps(shape: tuple[int, int], ctx: oc.Context) -> None:
    """Each term is just lost when it is added to the gradient of the last step, which comes first."""
    steps, batch = 20, 32
    factors = np.full((steps, batch, shape[1]), 0.9 * 2.0**-24, "float32")
    factors[-1] = 1 / batch
    w = oc.param("w", 1.0, output=[shape[0]], input=[shape[1]])
    xs = [oc.tensor(array, batch_axes=1) for array in factors]
    loss = sum(((w @ x).sum() for x in xs[1:]), (w @ xs[0]).sum())
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[w.grad])()
    exact = factors.astype(WIDE).sum((0, 1))
    errors = np.abs(ctx[w.grad].astype(WIDE) - exact) / (2.0**-23 * exact)
    assert errors.max() <= BOUND, f"{float(errors.max()):.1f} eps"


@pytest.mark.parametrize("is_shortcut_first", [True, False])
def test_gradients_beside_a_large_one_of_a_shortcut(is_shortcut_first: bool, ctx: oc.Context) -> None:
    """The sum is rounded once when it is added to the gradient of the shortcut, not once for each term."""
    rng, shortcut = np.random.default_rng(1), 2.0**20
    terms = rng.uniform(-1, 1, (8, 90)).astype("float32")
    x = oc.tanh(oc.param("p", 0.5, output=[24]) + oc.tensor(np.zeros((8, 24), "float32"), batch_axes=1))
    w = oc.param("w", 0.5, output=[90], input=[24])
    losses = (shortcut * x).sum(), (oc.tensor(terms, batch_axes=1) * (w @ x)).sum()
    loss = losses[0] + losses[1] if is_shortcut_first else losses[1] + losses[0]
    ctx.init(loss)
    ctx.compile(train.grad_update(loss), keep=[x.grad])()
    exact = shortcut + terms.astype(WIDE) @ ctx[w].astype(WIDE)
    errors = np.abs(ctx[x.grad].astype(WIDE) - exact) / (2.0**-23 * shortcut)
    assert errors.max() <= 0.51, f"{float(errors.max()):.1f} eps"

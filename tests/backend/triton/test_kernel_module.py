"""Kernels by nest, and their results, with and without partial blocks."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.base.config import settings


def integers(*shape, seed=0):
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def count_kernels(routine):
    return routine.source().count("@triton.jit\ndef") - routine.source().count("\n    return ")


def compute(context, tensor):
    routine = context.compile(tensor.forward)
    routine()
    return routine, context[tensor]


def sums(x):
    return x.sum("...|... => ...|0")


def maxima(x):
    return x.max("...|... => ...|0")


def total(x):
    return x.sum()


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 16), (33, 70, 100), (1, 9, 40), (130, 64, 65)], ids=str)
@pytest.mark.parametrize("spec", ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji", "bik,bkj->bij"])
def test_a_product_of_matrices(context, spec, sizes):
    inputs, _, result = spec.partition("->")
    left, right = inputs.split(",")
    size = dict(zip("ijk", sizes, strict=True), b=3)
    a, b = (integers(*(size[axis] for axis in axes), seed=n) for n, axes in enumerate((left, right)))
    notation = f"{left}; {right} => {result}"
    routine, value = compute(context, oc.einsum(notation, oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, np.einsum(spec, a, b))
    assert ("tl.dot" in routine.source()) is (min(sizes) >= 8)
    assert count_kernels(routine) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_operands_are_not_converted(context, dtype):
    a, b = integers(20, 30), integers(30, 40, seed=1)
    x, y = oc.tensor(a, dtype=dtype), oc.tensor(b, dtype=dtype)
    routine, value = compute(context, oc.einsum("ik; kj => ij", x, y))
    np.testing.assert_array_equal(np.asarray(value, np.float32), a @ b)
    assert "tl.dot(tl.load(" in routine.source()


@pytest.mark.parametrize("shape", [(1, 1), (3, 10), (40, 33), (7, 300), (2, 9000), (300, 2)], ids=str)
@pytest.mark.parametrize("function", [oc.softmax, oc.logsumexp, sums, maxima, total], ids=lambda f: f.__name__)
def test_rows(context, function, shape):
    data = integers(*shape)
    _, value = compute(context, function(oc.tensor(data, batch_axes=1)))
    expected = oc.Context("numpy")
    tensor = function(oc.tensor(data, batch_axes=1))
    expected.run(tensor.forward)
    np.testing.assert_allclose(value, expected[tensor], rtol=2e-6, atol=1e-7)


def test_softmax_is_a_single_kernel(context):
    routine, value = compute(context, oc.softmax(oc.tensor(integers(40, 33), batch_axes=1)))
    assert count_kernels(routine) == 1
    np.testing.assert_allclose(value.sum(1), 1, rtol=1e-6)


def test_training(context):
    """A perceptron, compared with the reference backend."""
    results = []
    for ctx in (context, oc.Context("numpy")):
        x, target = oc.tensor(integers(24, 20) / 4, batch_axes=1), oc.tensor(integers(24, 9, seed=1), batch_axes=1)
        w, b, v = oc.param("w", o=[30]), oc.param("b", 0.0, o=[30]), oc.param("v")
        loss = ((v @ oc.tanh(w @ x + b) - target) ** 2).sum() / 24
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 0.01)))
        for _ in range(3):
            step()
        results.append([ctx[loss], ctx[w], ctx[b], ctx[v]])
    for actual, reference in zip(*results, strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-5)


NAMES = ("maximum", "_maximum", "trunc", "tl", "triton", "libdevice", "range", "symbols", "def", "BLOCK_b0", "é 1")


@pytest.mark.parametrize("name", NAMES)
def test_arbitrary_labels(context, name):
    data = integers(20, 30)
    x = oc.tensor(data, batch_axes=1, label=name)
    y = oc.relu(x).sum("...|... => ...|0") + oc.maximum(x, 1.0).max("...|... => ...|0")
    _, value = compute(context, y)
    expected = np.maximum(data, 0).sum(1, keepdims=True) + np.maximum(data, 1).max(1, keepdims=True)
    np.testing.assert_array_equal(value, expected)


def test_programs_are_grouped(context):
    a, b = integers(1100, 16), integers(16, 130, seed=1)
    routine, value = compute(context, oc.einsum("ik; kj => ij", oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, a @ b)
    assert "tile = tl.program_id(0) % 54" in routine.source()


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bfloat16"])
def test_precision_of_matrix_products(triton, context, precision):
    a, b = integers(20, 30), integers(30, 40, seed=1)  # exact in any type
    with settings(products=precision):
        routine, value = compute(context, oc.einsum("ik; kj => ij", oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, a @ b)
    fragment = "tl.cast(tl.load(" if precision == "bfloat16" else f'input_precision="{precision}"'
    assert fragment in routine.source()


@pytest.mark.parametrize(("rows", "columns", "ids"), [
    (7, 130, [1, 1, 6, 0, 2, 1]), (50, 20, None), (600, 3, None), (40, 1, None), (2, 8, [1] * 40),
], ids=str)  # fmt: skip
def test_owner_computes_scatter(context, rows, columns, ids):
    """Rows are added in the order of the ids: results are bitwise equal, also where sums round."""
    ids = np.random.default_rng(3).integers(0, rows, 300) if ids is None else np.array(ids)
    updates = np.random.default_rng(4).normal(size=(len(ids), columns)).astype(np.float32)
    t = oc.param("table", init=integers(rows, columns))
    loss = (t.take(oc.tensor(ids)) * oc.tensor(updates)).sum()
    context.init(loss)
    routine = context.compile(train.grad_update(loss), keep=[t.grad])
    routine()
    expected = np.zeros((rows, columns), np.float64 if "tl.float64" in routine.source() else np.float32)
    for at, row in zip(ids, updates, strict=True):
        expected[at] += row
    np.testing.assert_array_equal(context[t.grad], expected.astype(np.float32))
    assert "_first = tl.program_id(0)" in routine.source()


def test_nan_updates_stay_in_their_row(context):
    """A NaN gradient reaches only the row that it belongs to."""
    updates, ids = integers(6, 20), np.array([1, 1, 6, 0, 2, 1])
    updates[2] = np.nan
    t = oc.param("table", init=integers(7, 20))
    loss = (t.take(oc.tensor(ids)) * oc.tensor(updates)).sum()
    context.init(loss)
    context.compile(train.grad_update(loss), keep=[t.grad])()
    assert np.isnan(context[t.grad]).all(1).tolist() == [False] * 6 + [True]
    assert np.isfinite(context[t.grad][:6]).all()


@pytest.mark.parametrize("shape", [(5, 10), (40, 3, 7), (1100, 3), (2, 1, 9)], ids=str)
def test_contiguous_loops_are_collapsed(context, shape):
    data = integers(*shape)
    routine, value = compute(context, oc.tensor(data) * 2.0 + 1.0)
    np.testing.assert_array_equal(value, data * 2 + 1)
    assert routine.source().count(": tl.constexpr") == 1


def test_a_window_on_padded_data(context):
    data, kernel = integers(9, 11), integers(3, 3, seed=1)
    padded = np.pad(data, 1)
    expected = sum(kernel[k, l] * padded[k : k + 9, l : l + 11] for k in range(3) for l in range(3))
    _, value = compute(context, oc.einsum("i=+k,j=+l; k,l => i,j", oc.tensor(data), oc.tensor(kernel)))
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("shape", [(70000,), (1 << 16,), (300, 300)], ids=str)
def test_long_reductions_are_split(context, shape):
    data = integers(*shape)
    x = oc.tensor(data)
    for tensor, expected in ((x.sum() / 4.0, data.sum() / 4), (oc.einsum("... => 0", x, reduce="max"), data.max())):
        routine, value = compute(context, tensor)
        np.testing.assert_array_equal(value.reshape(()), expected)
        assert count_kernels(routine) == 2


def causal_mask(queries, keys):
    return oc.einsum("s; t => st", oc.iota(queries), oc.iota(keys), combine="ge")


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
@pytest.mark.parametrize(("queries", "keys", "width", "causal"), [
    (64, 64, 16, True), (100, 130, 16, False), (130, 130, 24, True), (20, 65, 8, True), (65, 16, 40, False),
], ids=str)  # fmt: skip
def test_attention_is_a_single_kernel(context, queries, keys, width, causal, dtype):
    """Two matrix products and a softmax for two heads; rows without unmasked keys are NaN."""
    arrays = [np.random.default_rng(n).normal(size=(2, size, width)) for n, size in enumerate((queries, keys, keys))]
    q, k, v = (oc.tensor(array.astype(np.float32), dtype=dtype) for array in arrays)
    scores = oc.einsum("hsd; htd => hst", q, k) * width**-0.5
    exact = [np.asarray(tensor.numpy(oc.Context("numpy")), np.float64) for tensor in (q, k, v)]
    logits = np.einsum("hsd,htd->hst", *exact[:2]) * width**-0.5
    if causal:
        scores = oc.where(causal_mask(queries, keys), scores, -np.inf)
        logits = np.where(np.tri(queries, keys, dtype=bool), logits, -np.inf)
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    expected = np.einsum("hst,htd->hsd", exponentials / exponentials.sum(-1, keepdims=True), exact[2])
    routine, value = compute(context, y)
    assert count_kernels(routine) == 1 and routine.source().count("tl.dot(") == 2
    np.testing.assert_allclose(np.asarray(value, np.float64), expected, rtol=0, atol=2e-6 if dtype is None else 0.02)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("queries", "keys", "causal"), [(130, 130, True), (100, 80, False), (64, 128, False)], ids=str)
def test_gradients_of_attention_recompute_the_weights(context, queries, keys, causal, dtype):
    """No array of queries and keys is stored; compared with the reference, for two heads of width 8."""
    results = []
    for ctx in (context, oc.Context("numpy")):
        sizes = (queries, keys, keys, queries)
        arrays = [np.random.default_rng(n).normal(size=(2, size, 8)).astype(np.float32) for n, size in enumerate(sizes)]
        q, k, v = (oc.param(name, init=array, dtype=dtype) for name, array in zip("qkv", arrays, strict=False))
        scores = oc.einsum("hsd; htd => hst", q, k) * 8**-0.5
        if causal:
            scores = oc.where(causal_mask(queries, keys), scores, -np.inf)
        y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
        loss = (y * oc.tensor(arrays[3], dtype=dtype)).sum()
        ctx.init(loss)
        routine = ctx.compile(train.grad_update(loss), keep=[q.grad, k.grad, v.grad])
        routine()
        results.append([np.asarray(ctx[t.grad], np.float64) for t in (q, k, v)])
        if ctx is context:
            assert routine.source().count("tl.dot(") == 12
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 if dtype == "float32" else 0.03)


def test_attention_in_separate_kernels(context):
    """Without online softmax, which rescales partial sums."""
    q, k, v = (oc.tensor(integers(40, 16, seed=n)) for n in range(3))
    y = oc.einsum("st; td => sd", oc.softmax(oc.einsum("sd; td => st", q, k), "...|st => ...|s"), v)
    fused, value = compute(context, y)
    with oc.settings(online_softmax=False):
        separate, separate_value = compute(context, y)
    assert (count_kernels(fused), count_kernels(separate)) == (1, 3)
    np.testing.assert_allclose(value, separate_value, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(70_000, 10), (2_100, 40)])
def test_long_column_sums_are_split(context, rows, columns):
    """The gradient of a bias over many rows: two kernels, the first with several programs per column."""
    data = integers(rows, columns)
    routine, value = compute(context, oc.tensor(data).sum("ij => j"))
    np.testing.assert_array_equal(value, data.sum(0))
    assert count_kernels(routine) == 2


def test_long_rows_are_read_twice(context):
    data = np.random.default_rng(0).normal(size=(64, 8200)).astype(np.float32) * 4
    routine, value = compute(context, oc.softmax(oc.tensor(data, batch_axes=1)))
    exponentials = np.exp(data.astype(np.float64) - data.max(1, keepdims=True))
    np.testing.assert_allclose(value, exponentials / exponentials.sum(1, keepdims=True), rtol=2e-5)
    assert count_kernels(routine) == 1 and routine.source().count("tl.exp(") == 3

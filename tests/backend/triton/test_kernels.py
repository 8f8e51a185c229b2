"""What becomes one kernel, and what it computes, in blocks that fit and in others."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.base.config import settings


def whole(*shape, seed=0):
    """Small whole numbers: any order gives the same sum."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def kernels(routine):
    return routine.source().count("@triton.jit\ndef") - routine.source().count("\n    return ")


def computed(context, tensor):
    routine = context.compile(tensor.forward)
    routine()
    return routine, context[tensor]


def sums(x):
    return x.sum("...|... => ...|0")


def largest(x):
    return x.max("...|... => ...|0")


def total(x):
    return x.sum()


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 16), (33, 70, 100), (1, 9, 40), (130, 64, 65)], ids=str)
@pytest.mark.parametrize("spec", ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji", "bik,bkj->bij"])
def test_a_product_of_matrices(context, spec, sizes):
    inputs, _, result = spec.partition("->")
    left, right = inputs.split(",")
    size = dict(zip("ijk", sizes, strict=True), b=3)
    a, b = (whole(*(size[axis] for axis in axes), seed=n) for n, axes in enumerate((left, right)))
    notation = f"{left}; {right} => {result}"
    routine, value = computed(context, oc.einsum(notation, oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, np.einsum(spec, a, b))
    assert ("tl.dot" in routine.source()) is (min(sizes) >= 8)
    assert kernels(routine) == 1


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_factors_are_multiplied_as_they_are(context, kind):
    a, b = whole(20, 30), whole(30, 40, seed=1)
    x, y = oc.tensor(a, dtype=kind), oc.tensor(b, dtype=kind)
    routine, value = computed(context, oc.einsum("ik; kj => ij", x, y))
    np.testing.assert_array_equal(np.asarray(value, np.float32), a @ b)
    assert "tl.dot(tl.load(" in routine.source()


@pytest.mark.parametrize("shape", [(1, 1), (3, 10), (40, 33), (7, 300), (2, 9000), (300, 2)], ids=str)
@pytest.mark.parametrize("function", [oc.softmax, oc.logsumexp, sums, largest, total], ids=lambda f: f.__name__)
def test_rows(context, function, shape):
    data = whole(*shape)
    _, value = computed(context, function(oc.tensor(data, batch_axes=1)))
    wanted = oc.Context("numpy")
    tensor = function(oc.tensor(data, batch_axes=1))
    wanted.run(tensor.forward)
    np.testing.assert_allclose(value, wanted[tensor], rtol=2e-6, atol=1e-7)


def test_what_is_done_with_rows_is_one_kernel(context):
    routine, value = computed(context, oc.softmax(oc.tensor(whole(40, 33), batch_axes=1)))
    assert kernels(routine) == 1
    np.testing.assert_allclose(value.sum(1), 1, rtol=1e-6)


def test_training(context):
    """Of a perceptron, beside the reference."""
    found = []
    for each in (context, oc.Context("numpy")):
        x, target = oc.tensor(whole(24, 20) / 4, batch_axes=1), oc.tensor(whole(24, 9, seed=1), batch_axes=1)
        w, b, v = oc.param("w", o=[30]), oc.param("b", 0.0, o=[30]), oc.param("v")
        loss = ((v @ oc.tanh(w @ x + b) - target) ** 2).sum() / 24
        each.init(loss)
        step = each.compile(oc.seq(train.grad_update(loss), train.adam(loss, 0.01)))
        for _ in range(3):
            step()
        found.append([each[loss], each[w], each[b], each[v]])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


NAMES = ("maximum", "_maximum", "trunc", "tl", "triton", "libdevice", "range", "statics", "def", "BLOCK_b0", "é 1")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_will_do(context, name):
    data = whole(20, 30)
    x = oc.tensor(data, batch_axes=1, label=name)
    y = oc.relu(x).sum("...|... => ...|0") + oc.maximum(x, 1.0).max("...|... => ...|0")
    _, value = computed(context, y)
    wanted = np.maximum(data, 0).sum(1, keepdims=True) + np.maximum(data, 1).max(1, keepdims=True)
    np.testing.assert_array_equal(value, wanted)


def test_tiles_of_many_rows_stay_near(context):
    a, b = whole(1100, 16), whole(16, 130, seed=1)
    routine, value = computed(context, oc.einsum("ik; kj => ij", oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, a @ b)
    assert "tile = tl.program_id(0) % 54" in routine.source()


@pytest.mark.parametrize("how", ["ieee", "tf32", "tf32x3", "bfloat16"])
def test_how_matrices_are_multiplied(triton, context, how):
    a, b = whole(20, 30), whole(30, 40, seed=1)  # exact in any type
    with settings(products=how):
        routine, value = computed(context, oc.einsum("ik; kj => ij", oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, a @ b)
    said = "tl.cast(tl.load(" if how == "bfloat16" else f'input_precision="{how}"'
    assert said in routine.source()


@pytest.mark.parametrize(("rows", "columns", "ids"), [
    (7, 130, [1, 1, 6, 0, 2, 1]), (50, 20, None), (600, 3, None), (40, 1, None), (2, 8, [1] * 40),
], ids=str)  # fmt: skip
def test_programs_share_the_rows_of_a_table(context, rows, columns, ids):
    """Rows are added to it in the order of the ids: with numbers that are no whole ones, each bit is the same."""
    ids = np.random.default_rng(3).integers(0, rows, 300) if ids is None else np.array(ids)
    more = np.random.default_rng(4).normal(size=(len(ids), columns)).astype(np.float32)
    t = oc.param("table", init=whole(rows, columns))
    loss = (t.take(oc.tensor(ids)) * oc.tensor(more)).sum()
    context.init(loss)
    routine = context.compile(train.grad_update(loss), keep=[t.grad])
    routine()
    wanted = np.zeros((rows, columns), np.float32)
    for at, row in zip(ids, more, strict=True):
        wanted[at] += row
    np.testing.assert_array_equal(context[t.grad], wanted)
    assert "_first = tl.program_id(0)" in routine.source()


def test_what_is_added_to_no_row_spoils_none(context):
    """A gradient that is not a number reaches the row that it belongs to, and no other."""
    more, ids = whole(6, 20), np.array([1, 1, 6, 0, 2, 1])
    more[2] = np.nan
    t = oc.param("table", init=whole(7, 20))
    loss = (t.take(oc.tensor(ids)) * oc.tensor(more)).sum()
    context.init(loss)
    context.compile(train.grad_update(loss), keep=[t.grad])()
    assert np.isnan(context[t.grad]).all(1).tolist() == [False] * 6 + [True]
    assert np.isfinite(context[t.grad][:6]).all()


@pytest.mark.parametrize("shape", [(5, 10), (40, 3, 7), (1100, 3), (2, 1, 9)], ids=str)
def test_loops_that_go_through_memory_as_one_are_one(context, shape):
    data = whole(*shape)
    routine, value = computed(context, oc.tensor(data) * 2.0 + 1.0)
    np.testing.assert_array_equal(value, data * 2 + 1)
    assert routine.source().count(": tl.constexpr") == 1


def test_a_window_on_padded_data(context):
    data, kernel = whole(9, 11), whole(3, 3, seed=1)
    padded = np.pad(data, 1)
    wanted = sum(kernel[k, l] * padded[k : k + 9, l : l + 11] for k in range(3) for l in range(3))
    _, value = computed(context, oc.einsum("i=+k,j=+l; k,l => i,j", oc.tensor(data), oc.tensor(kernel)))
    np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("shape", [(70000,), (1 << 16,), (300, 300)], ids=str)
def test_long_sums_are_taken_in_parts(context, shape):
    data = whole(*shape)
    x = oc.tensor(data)
    for tensor, wanted in ((x.sum() / 4.0, data.sum() / 4), (oc.einsum("... => 0", x, reduce="max"), data.max())):
        routine, value = computed(context, tensor)
        np.testing.assert_array_equal(value.reshape(()), wanted)
        assert kernels(routine) == 2


def past(queries, keys):
    return oc.einsum("s; t => st", oc.iota(queries), oc.iota(keys), combine="ge")


@pytest.mark.parametrize("kind", [None, "bfloat16"])
@pytest.mark.parametrize(("queries", "keys", "width", "causal"), [
    (64, 64, 16, True), (100, 130, 16, False), (130, 130, 24, True), (20, 65, 8, True), (65, 16, 40, False),
], ids=str)  # fmt: skip
def test_attention_is_one_kernel(context, queries, keys, width, causal, kind):
    """Two products and the softmax between them, for two heads; a row whose keys are all left out is not a number."""
    arrays = [np.random.default_rng(n).normal(size=(2, size, width)) for n, size in enumerate((queries, keys, keys))]
    q, k, v = (oc.tensor(array.astype(np.float32), dtype=kind) for array in arrays)
    scores = oc.einsum("hsd; htd => hst", q, k) * width**-0.5
    exact = [np.asarray(each.numpy(oc.Context("numpy")), np.float64) for each in (q, k, v)]
    logits = np.einsum("hsd,htd->hst", *exact[:2]) * width**-0.5
    if causal:
        scores = oc.where(past(queries, keys), scores, -np.inf)
        logits = np.where(np.tri(queries, keys, dtype=bool), logits, -np.inf)
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    wanted = np.einsum("hst,htd->hsd", powers / powers.sum(-1, keepdims=True), exact[2])
    routine, value = computed(context, y)
    assert kernels(routine) == 1 and routine.source().count("tl.dot(") == 2
    np.testing.assert_allclose(np.asarray(value, np.float64), wanted, rtol=0, atol=2e-6 if kind is None else 0.02)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize(("queries", "keys", "causal"), [(130, 130, True), (100, 80, False), (64, 128, False)], ids=str)
def test_gradients_of_attention_make_the_weights_again(context, queries, keys, causal, kind):
    """Beside the reference: no array of queries and keys is kept. Arrays of 8 columns, for two heads."""
    found = []
    for each in (context, oc.Context("numpy")):
        sizes = (queries, keys, keys, queries)
        arrays = [np.random.default_rng(n).normal(size=(2, size, 8)).astype(np.float32) for n, size in enumerate(sizes)]
        q, k, v = (oc.param(name, init=array, dtype=kind) for name, array in zip("qkv", arrays, strict=False))
        scores = oc.einsum("hsd; htd => hst", q, k) * 8**-0.5
        if causal:
            scores = oc.where(past(queries, keys), scores, -np.inf)
        y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
        loss = (y * oc.tensor(arrays[3], dtype=kind)).sum()
        each.init(loss)
        routine = each.compile(train.grad_update(loss), keep=[q.grad, k.grad, v.grad])
        routine()
        found.append([np.asarray(each[t.grad], np.float64) for t in (q, k, v)])
        if each is context:
            assert routine.source().count("tl.dot(") == 12
    for got, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 if kind == "float32" else 0.03)


def test_attention_in_separate_kernels(context):
    """For whoever does not want sums to be rescaled."""
    q, k, v = (oc.tensor(whole(40, 16, seed=n)) for n in range(3))
    y = oc.einsum("st; td => sd", oc.softmax(oc.einsum("sd; td => st", q, k), "...|st => ...|s"), v)
    one, value = computed(context, y)
    with oc.settings(online_softmax=False):
        three, other = computed(context, y)
    assert (kernels(one), kernels(three)) == (1, 3)
    np.testing.assert_allclose(value, other, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(70_000, 10), (2_100, 40)])
def test_long_columns_are_summed_in_parts(context, rows, columns):
    """The gradient of a bias over many rows: two kernels, of which the first has programs for parts of a column."""
    data = whole(rows, columns)
    routine, value = computed(context, oc.tensor(data).sum("ij => j"))
    np.testing.assert_array_equal(value, data.sum(0))
    assert kernels(routine) == 2


def test_long_rows_are_walked_twice_by_as_many_programs(context):
    data = np.random.default_rng(0).normal(size=(64, 8200)).astype(np.float32) * 4
    routine, value = computed(context, oc.softmax(oc.tensor(data, batch_axes=1)))
    powers = np.exp(data.astype(np.float64) - data.max(1, keepdims=True))
    np.testing.assert_allclose(value, powers / powers.sum(1, keepdims=True), rtol=2e-5)
    assert kernels(routine) == 1 and routine.source().count("tl.exp(") == 3

"""Softmax by running maxima: the same as by definition, wherever blocks begin and end, and whatever is not a number."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt import pipeline
from ocannl.opt.idioms.attention.online_softmax import online_softmax
from ocannl.opt.idioms.attention.recompute_attention import recompute_attention
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate

GRID = Capabilities(wants_schedule=False, wants_fusion_groups=True, wants_online_softmax=True)
HEADS, WIDTH, BLOCK = 2, 8, 16


def normal(*shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def attention(queries, keys, mask=None, dtype=None):
    """The tensors, the mixture, and what it is by NumPy in float64."""
    shapes = [(HEADS, queries, WIDTH), (HEADS, keys, WIDTH), (HEADS, keys, WIDTH)]
    arrays = [normal(*shape, seed=n) for n, shape in enumerate(shapes)]
    q, k, v = inputs = [oc.tensor(array, dtype=dtype, label=label) for label, array in zip("qkv", arrays, strict=True)]
    scores = oc.einsum("hsd; htd => hst", q, k) * WIDTH**-0.5
    wanted = np.einsum("hsd,htd->hst", *arrays[:2], dtype=np.float64) * WIDTH**-0.5
    if mask is not None:
        scores = oc.where(mask(oc.iota(queries), oc.iota(keys)), scores, -math.inf)
        wanted = np.where(np.asarray(mask(oc.iota(queries), oc.iota(keys)).numpy(oc.Context("numpy"))), wanted, -np.inf)
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wanted - wanted.max(-1, keepdims=True))
        return inputs, y, np.einsum("hst,htd->hsd", powers / powers.sum(-1, keepdims=True), arrays[2])


def past(s, t):
    return oc.einsum("s; t => st", s, t, combine="ge")


def future(s, t):
    return oc.einsum("s; t => st", s, t, combine="le")


def strictly_past(s, t):
    return oc.einsum("s; t => st", s, t, combine="gt")


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    monkeypatch.setattr(pipeline, "online_softmax", lambda proc: online_softmax(proc, BLOCK))


def computed(y, inputs, without=frozenset(), requested=(), target=GRID):
    code = y.forward.elaborate()
    stages = {}
    requested = dict.fromkeys((y.node, *requested), "kept") | dict(code.keep_reasons)
    proc = optimize(lower(code.comp, "step"), requested, target, stages.__setitem__, without)
    verify(proc, "optimized" if "allocate_memory" in without else "placed", alignment_bytes=target.alignment_bytes)
    arrays = {t.node: t.numpy(oc.Context("numpy")) for t in inputs}
    return stages.get("online_softmax", proc), interpret(proc, arrays)


def nests(proc):
    return [stmt for stmt in proc.body if isinstance(stmt, For)]


@pytest.mark.parametrize("mask", [None, past, future, strictly_past])
@pytest.mark.parametrize("keys", [16, 17, 31, 32, 33, 48])
def test_attention(keys, mask):
    inputs, y, wanted = attention(19, keys, mask)
    proc, got = computed(y, inputs)
    assert len(nests(proc)) == 1, print_proc(proc)
    np.testing.assert_allclose(got[y.node], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("keys", [17, 32, 48])
@pytest.mark.parametrize("vector_bytes", [0, 16, 32])
def test_definitions_around_scheduled_loops(vector_bytes, keys):
    """Powers of a block are of scores less a number that is defined outside of their loop."""
    inputs, y, wanted = attention(19, keys)
    proc, got = computed(y, inputs, target=Capabilities(vector_bytes=vector_bytes, wants_online_softmax=True))
    assert "let base" in print_proc(proc), print_proc(proc)
    np.testing.assert_allclose(got[y.node], wanted, rtol=2e-5, atol=2e-6)


def test_blocks_that_no_row_sees_are_left_out():
    inputs, y, _ = attention(48, 48, past)
    text = print_proc(computed(y, inputs)[0])
    assert re.search(r"for t_\w*block in 0..min\(3, floordiv\(s_\w+, 16\)\+1\)", text), text
    inputs, y, _ = attention(48, 48, future)
    text = print_proc(computed(y, inputs)[0])
    assert re.search(r"for t_\w*block in max\(0, ceildiv\(s_\w+-15, 16\)\)\.\.3", text), text


def test_numbers_of_two_bytes_are_summed_as_wide_ones():
    inputs, y, _ = attention(19, 48, past, "bfloat16")
    proc, got = computed(y, inputs)
    assert len(nests(proc)) == 1
    _, usual = computed(y, inputs, frozenset({"online_softmax"}))
    (q, k, v), numbers = [np.asarray(t.numpy(oc.Context("numpy")), np.float64) for t in inputs], got[y.node]
    scores = np.where(np.tri(19, 48, dtype=bool), np.einsum("hsd,htd->hst", q, k) * WIDTH**-0.5, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    exact = np.einsum("hst,htd->hsd", powers / powers.sum(-1, keepdims=True), v)
    worst, before = (np.abs(np.asarray(t, np.float64) - exact).max() for t in (numbers, usual[y.node]))
    assert worst <= 0.02 and worst <= 1.5 * before


@pytest.mark.parametrize("keys", [16, 40])
def test_parts_that_somebody_reads_are_written(keys):
    inputs, y, wanted = attention(19, keys, past)
    (parts,) = [t for t in nodes(y.forward.elaborate().comp) if t.label == "softmax"]
    proc, got = computed(y, inputs, requested=[parts])
    assert len(nests(proc)) == 1, print_proc(proc)
    _, usual = computed(y, inputs, frozenset({"online_softmax"}), [parts])
    np.testing.assert_allclose(got[parts], usual[parts], rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(got[y.node], wanted, rtol=2e-5, atol=2e-6)


def test_whoever_wants_it_leaves_it_out():
    _, y, _ = attention(19, 40, past)
    stages = {}
    target = replace(GRID, wants_online_softmax=False)
    proc = optimize(lower(y.forward.elaborate().comp, "step"), {y.node: "kept"}, target, stages.__setitem__)
    assert "online_softmax" not in stages and len(nests(proc)) == 3


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_gradients(dtype):
    """Beside those of the reference: the parts that the backward pass reads are those of the rows."""
    def step():
        arrays = [normal(HEADS, 20, WIDTH, seed=n) for n in range(3)]
        q, k, v = (oc.param(label, array, dtype=dtype) for label, array in zip("qkv", arrays, strict=True))
        scores = oc.einsum("hsd; htd => hst", q, k) * WIDTH**-0.5
        scores = oc.where(past(oc.iota(20), oc.iota(20)), scores, -math.inf)
        y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
        return train.grad_update((y * y).sum())

    elaborated = step().elaborate()
    by_label = {node.label: node for node in nodes(elaborated.comp)}
    arrays = {by_label[label]: normal(HEADS, 20, WIDTH, seed=n) for n, label in enumerate("qkv")}
    grads = [node for node in nodes(elaborated.comp) if node.label in ("q.grad", "k.grad", "v.grad")]
    assert len(grads) == 3, sorted(by_label)
    wanted = evaluate(elaborated.comp, arrays)
    stages = {}
    requested = dict.fromkeys(grads, "kept") | dict(elaborated.keep_reasons)
    proc = optimize(lower(elaborated.comp, "step"), requested, GRID, stages.__setitem__)
    verify(proc, "placed", alignment_bytes=GRID.alignment_bytes)
    assert len(stages["online_softmax"].body) == len(stages["choose_layouts"].body) - 5
    got = interpret(proc, arrays)
    for t in grads:
        want = np.asarray(wanted[t], np.float64)
        bound = 0.03 * np.abs(want).max() if dtype else 1e-5
        np.testing.assert_allclose(np.asarray(got[t], np.float64), want, rtol=1e-5, atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize("is_gradient", [False, True])
def test_sums_of_many_blocks_are_wide(is_gradient, monkeypatch):
    """The first key has weight 1, and the weights of each later block are just lost when they are added to it."""
    monkeypatch.setattr(pipeline, "recompute_attention", lambda proc: recompute_attention(proc, BLOCK))
    queries, keys = 2, 200 * BLOCK
    q = np.zeros((1, queries, WIDTH), np.float32)
    k, v = np.zeros((1, keys, WIDTH), np.float32), np.full((1, keys, WIDTH), 0.1, np.float32)
    q[..., 0], v[:, 0], k[:, 1:, 0] = 1, -0.1, math.log(0.99 * 2.0**-24 / BLOCK)
    leaves = [oc.param(label, array) for label, array in zip("qkv", (q, k, v), strict=True)]
    scores = oc.einsum("hsd; htd => hst", *leaves[:2])
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), leaves[2])
    code = (train.grad_update(y.sum()) if is_gradient else y.forward).elaborate()
    by_label = {node.label: node for node in nodes(code.comp)}
    result = by_label["q.grad"] if is_gradient else y.node
    proc = optimize(lower(code.comp, "step"), {result: "kept"}, GRID)
    assert f"{keys // BLOCK}" in print_proc(proc) and "mixed" in print_proc(proc)
    got = interpret(proc, {by_label[label]: array for label, array in zip("qkv", (q, k, v), strict=True)})[result]
    weights = np.exp(np.einsum("hsd,htd->hst", q, k, dtype=np.float64))
    weights /= weights.sum(-1, keepdims=True)
    terms = v.astype(np.float64).sum(-1)
    if is_gradient:
        mixed = np.einsum("hst,ht->hs", weights, terms)
        exact = np.einsum("hst,hst,htd->hsd", weights, terms[:, None] - mixed[..., None], k)
        sizes = np.abs(terms)[:, None] + np.abs(mixed)[..., None]
        magnitude = np.einsum("hst,hst,htd->hsd", weights, sizes, np.abs(k))
    else:
        exact = np.einsum("hst,htd->hsd", weights, v.astype(np.float64))
        magnitude = np.einsum("hst,htd->hsd", weights, np.abs(v).astype(np.float64))
    assert (np.abs(got - exact) <= 64 * 2.0**-23 * magnitude).all()


@pytest.mark.parametrize("size", [4097, 8192, 9001])
def test_rows_that_are_longer_than_a_block(size, monkeypatch):
    monkeypatch.setattr(machine, "MIN_BUSY_ROWS", 2)
    monkeypatch.setattr(pipeline, "online_softmax", lambda proc: online_softmax(proc, max_register_row=4096))
    data = normal(2, size, seed=1) * 5
    data[1, :size // 2] = -math.inf
    x = oc.tensor(data, batch_axes=1)
    y = oc.softmax(x)
    proc, got = computed(y, [x])
    assert len(nests(proc)) == 1
    powers = np.exp(data.astype(np.float64) - data.max(1, keepdims=True))
    np.testing.assert_allclose(got[y.node], powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-9)


def agrees(code, inputs, requested=()):
    """Whether the program computes what its code says; how many nests it has after the pass."""
    elaborated, stages = code.elaborate(), {}
    requested = dict.fromkeys((t.node for t in requested), "kept") | dict(elaborated.keep_reasons)
    proc = optimize(lower(elaborated.comp, "step"), requested, GRID, stages.__setitem__)
    verify(proc, "placed", alignment_bytes=GRID.alignment_bytes)
    arrays = {t.node: array for t, array in inputs.items()}
    wanted = evaluate(elaborated.comp, arrays)
    for node, array in interpret(proc, arrays).items():
        np.testing.assert_allclose(array, wanted.get(node, arrays.get(node)), rtol=1e-5, atol=1e-6, err_msg=node.label)
    return len(nests(stages["online_softmax"]))


def square(*labels):
    return {
        oc.placeholder(label, b=[20], o=[20]): normal(20, 20, seed=n) for n, label in enumerate(labels)
    }  # fmt: skip


def mixed(p, v):
    return oc.einsum("s|t; t|d => s|d", p, v)


def test_a_mixture_of_what_another_one_mixes_stays_outside():
    """It reads rows that are not there yet."""
    x, v = inputs = square("x", "v")
    p = oc.softmax(x)
    assert agrees(mixed(p, mixed(p, v)).forward, inputs) == 2


def test_sums_over_rows_are_no_mixtures():
    arrays = [normal(*shape, seed=n) for n, shape in enumerate([(2, 20, 8), (2, 24, 8), (20, 8)])]
    labels = ("q", "k", "g")
    q, k, g = inputs = {
        oc.placeholder(label, o=array.shape): array for label, array in zip(labels, arrays, strict=True)
    }  # fmt: skip
    p = oc.softmax(oc.einsum("hsd; htd => hst", q, k), "hst => hs")
    agrees(oc.einsum("hst; sd => htd", p, g).forward, inputs)


@pytest.mark.parametrize("spec", ["s|t => s|t", "s|t => t|s"])
@pytest.mark.parametrize("kept", [False, True])
def test_scores_are_not_written_over_by_what_is_mixed(spec, kept):
    """Other rows, or those who want the parts, still read them."""
    x, v = inputs = square("x", "v")
    p = oc.softmax(oc.einsum(spec, x))
    y = mixed(p, v)
    with oc.cd() as update:
        x[...] = y
    agrees(oc.seq(y.forward, update), inputs, [p] if kept else [])


def test_factors_of_scores_are_not_written_over_by_what_is_mixed():
    x, v = inputs = square("x", "v")
    y = mixed(oc.softmax(oc.einsum("s|d; t|d => s|t", x, x)), v)
    with oc.cd() as update:
        x[...] = y
    agrees(oc.seq(y.forward, update), inputs)


def test_powers_and_parts_in_one_array():
    x, v = inputs = square("x", "v")
    with oc.cd() as code:
        x[...] = oc.exp(x - x.max("s|t => s|0"))
        y = mixed(x, v)
        v[...] = y
        x[...] = x / x.sum("s|t => s|0")
        v += mixed(x, v)
    agrees(code, inputs)


def test_mixtures_that_go_into_the_same_cells():
    """Row by row, in the order of the program."""
    x, v, w, y = inputs = square("x", "v", "w", "y")
    p = oc.softmax(x)
    with oc.cd() as update:
        y[...] = mixed(p, v)
        y += mixed(p, w)
    agrees(oc.seq(p.forward, update), inputs)

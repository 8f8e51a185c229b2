"""Gradients of attention by weights that are made again: as by definition, and without arrays of queries and keys."""

import math
import re

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import pipeline
from ocannl.opt.idioms.attention.online_softmax import online_softmax
from ocannl.opt.idioms.attention.recompute_attention import recompute_attention
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate

GRID = Capabilities(wants_schedule=False, wants_fusion_groups=True, wants_online_softmax=True)
HEADS, WIDTH, BLOCK = 2, 4, 8
COMPARED = {None: None, "past": "ge", "future": "le"}


def normal(*shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    monkeypatch.setattr(pipeline, "recompute_attention", lambda proc: recompute_attention(proc, BLOCK))
    monkeypatch.setattr(pipeline, "online_softmax", lambda proc: online_softmax(proc, BLOCK))


def attended(queries, keys, mask, *, kept=False):
    """The program of the gradients, what it computes, and what NumPy computes in float64; the weights, if kept, too."""
    shapes = [(HEADS, size, WIDTH) for size in (queries, keys, keys, queries)]
    arrays = [normal(*shape, seed=n) for n, shape in enumerate(shapes)]
    *params, g = [oc.param(name, init=array) for name, array in zip("qkv", arrays[:3], strict=True)] + [
        oc.tensor(arrays[3], label="g")
    ]
    q, k, v = params
    scores = oc.einsum("hsd; htd => hst", q, k) * WIDTH**-0.5
    exact = np.einsum("hsd,htd->hst", *arrays[:2], dtype=np.float64) * WIDTH**-0.5
    if mask is not None:
        seen = oc.einsum("s; t => st", oc.iota(queries), oc.iota(keys), combine=COMPARED[mask])
        scores = oc.where(seen, scores, -math.inf)
        past = np.subtract.outer(np.arange(queries), np.arange(keys))
        exact = np.where(past >= 0 if mask == "past" else past <= 0, exact, -np.inf)
    weights = oc.softmax(scores, "...|hst => ...|hs")
    loss = (oc.einsum("hst; htd => hsd", weights, v) * g).sum()
    requested = [q.grad, k.grad, v.grad, *([weights] if kept else [])]
    code = train.grad_update(loss).elaborate()
    stages = {}
    nodes = dict.fromkeys((t.node for t in requested), "kept") | dict(code.keep_reasons)
    proc = optimize(lower(code.comp, "step"), nodes, GRID, stages.__setitem__)
    verify(proc, "placed", alignment_bytes=GRID.alignment_bytes)
    contents = dict(zip((t.node for t in (q, k, v, g)), arrays, strict=True))
    after = interpret(proc, contents)
    powers = np.exp(exact - exact.max(-1, keepdims=True))
    parts = powers / powers.sum(-1, keepdims=True)
    back = np.einsum("hsd,htd->hst", arrays[3], arrays[2], dtype=np.float64)
    inner = parts * (back - (parts * back).sum(-1, keepdims=True)) * WIDTH**-0.5
    wanted = [
        np.einsum("hst,htd->hsd", inner, arrays[1]), np.einsum("hst,hsd->htd", inner, arrays[0]),
        np.einsum("hst,hsd->htd", parts, arrays[3]), *([parts] if kept else []),
    ]  # fmt: skip
    return stages, [after[t.node] for t in requested], wanted


@pytest.mark.parametrize(("queries", "keys", "mask"), [
    (24, 24, None), (24, 24, "past"), (24, 24, "future"), (20, 27, None), (20, 27, "future"), (27, 20, "past"),
], ids=str)  # fmt: skip
def test_gradients(queries, keys, mask):
    stages, got, wanted = attended(queries, keys, mask)
    for result, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=2e-5, atol=2e-6)
    large = [buf.name for buf in stages["allocate_memory"].bufs if buf.size >= HEADS * queries * keys]
    assert not large, print_proc(stages["allocate_memory"])
    assert len(stages["recompute_attention"].body) < len(stages["choose_layouts"].body)


UP_TO = r"{0}\w*block in 0..min\(3, floordiv\({1}\w+, 8\)\+1\)"
FROM = r"{0}\w*block in max\(0, ceildiv\({1}\w+-7, 8\)\)..3"


@pytest.mark.parametrize(("mask", "of_keys", "of_queries"), [("past", FROM, UP_TO), ("future", UP_TO, FROM)])
def test_blocks_that_nobody_sees_are_left_out(mask, of_keys, of_queries):
    stages, _, _ = attended(24, 24, mask)
    text = print_proc(stages["recompute_attention"])
    assert len(re.findall(of_keys.format('s_', 't_'), text)) == 2, text  # gradients of keys and of values
    assert len(re.findall(of_queries.format('t_', 's_'), text)) == 2, text  # of queries, and of the sums of powers


def test_weights_that_somebody_looks_at_are_kept():
    stages, got, wanted = attended(24, 24, "past", kept=True)
    for result, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=2e-5, atol=2e-6)
    assert any(buf.size == HEADS * 24 * 24 for buf in stages["allocate_memory"].bufs)


def test_short_rows_are_kept():
    """What an array is made of is not much smaller."""
    stages, got, wanted = attended(17, 15, None)
    assert stages["recompute_attention"] is stages["choose_layouts"]
    for result, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=2e-5, atol=2e-6)


def test_other_programs_stay_as_they_are():
    x, w = oc.param("x", init=normal(40, 8, seed=0)), oc.param("w", init=normal(8, 40, seed=1))
    loss = (oc.tanh(oc.einsum("ik; kj => ij", x, w)) ** 2).sum()
    code = train.grad_update(loss).elaborate()
    stages = {}
    optimize(lower(code.comp, "step"), dict(code.keep_reasons), GRID, stages.__setitem__)
    assert stages["recompute_attention"] is stages["choose_layouts"]


def test_what_weights_are_made_of_is_not_written_over_while_they_are_made_again():
    size = 40
    arrays = [normal(size, WIDTH, seed=n) for n in range(2)]
    x, w = (oc.placeholder(label, o=[size, WIDTH]) for label in "xw")
    weights = oc.softmax(oc.einsum("sd; td => st", x, x), "st => s")
    y, z = oc.einsum("st; td => sd", weights, w), oc.einsum("st; sd => td", weights, w)
    with oc.cd() as update:
        x[...] = z
    code = oc.seq((y.sum() + z.sum()).forward, update).elaborate()
    proc = optimize(lower(code.comp, "step"), dict(code.keep_reasons), GRID)
    verify(proc, "placed", alignment_bytes=GRID.alignment_bytes)
    contents = dict(zip((x.node, w.node), arrays, strict=True))
    wanted, got = evaluate(code.comp, contents), interpret(proc, contents)
    np.testing.assert_allclose(got[x.node], wanted[x.node], rtol=2e-5, atol=2e-6)

"""Keys that a static symbol masks are not read, and results are those of the definition."""

import math

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.assign import nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize

HEADS, WIDTH, BLOCK = 2, 8, 64
TARGETS = {"scalars": Capabilities(), "vectors": Capabilities(vector_bytes=32)}


def up_to(position, keys):
    return position - keys >= 0


def attention(keys, mask=up_to, first=0):
    """The inputs by label, and the result for the query of a position, a static symbol."""
    rng = np.random.default_rng(0)
    shapes = {"q": (HEADS, 1, WIDTH), "k": (HEADS, keys, WIDTH), "v": (HEADS, keys, WIDTH)}
    arrays = {label: rng.normal(size=shape).astype(np.float32) for label, shape in shapes.items()}
    q, k, v = (oc.tensor(array, label=label) for label, array in arrays.items())
    shown = oc.einsum("t => 0, 0, t", mask(oc.symbol("position", first, keys), oc.iota(keys)))
    scores = oc.where(shown, oc.einsum("hsd; htd => hst", q, k) * WIDTH**-0.5, -math.inf)
    return arrays, oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)


def by_definition(arrays, count):
    q, k, v = (array.astype(np.float64)[:, :count] for array in arrays.values())
    powers = np.exp(np.einsum("hsd,htd->hst", q, k) * WIDTH**-0.5)
    return np.einsum("hst,htd->hsd", powers / powers.sum(-1, keepdims=True), v)


def optimized(y, target=TARGETS["vectors"], kept=()):
    code = y.forward.elaborate()
    stages = {}
    reasons = dict.fromkeys((y.node, *(t for t in nodes(code.comp) if t.label in kept)), "kept")
    proc = optimize(lower(code.comp, "step"), reasons | dict(code.keep_reasons), target, stages.__setitem__)
    verify(proc, "placed", alignment_bytes=target.alignment_bytes)
    return proc, stages


def computed(proc, y, arrays, position):
    by_label = {buf.node.label: buf.node for buf in proc.bufs if buf.node is not None}
    inputs = {by_label[label]: array for label, array in arrays.items()}
    return interpret(proc, inputs, dict.fromkeys(proc.syms, position))[y.node]


def is_bounded(stages):
    return stages["skip_masked_keys"] is not stages["pad_rows"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keys", [128, 192, 144])
def test_masked_keys_are_not_read(keys, target):
    arrays, y = attention(keys)
    proc, stages = optimized(y, TARGETS[target])
    assert is_bounded(stages)
    block = {128: 64, 192: 64, 144: 48}[keys]
    assert f"floordiv(position, {block})" in print_proc(proc), print_proc(proc)
    for position in (0, block - 1, block, keys - 1):
        beyond = (position // block + 1) * block
        hidden = {label: array.copy() for label, array in arrays.items()}
        hidden["k"][:, beyond:] = hidden["v"][:, beyond:] = np.nan  # a product with one of them is NaN
        got = computed(proc, y, hidden, position)
        np.testing.assert_allclose(got, by_definition(arrays, position + 1), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("mask", "offset"), [(lambda p, t: p - t > 0, 0), (lambda p, t: p + 3 - t > 0, 3)])
def test_the_last_key_may_be_another_one_than_the_symbol(mask, offset):
    keys = 128
    arrays, y = attention(keys, mask, first=1)
    proc, stages = optimized(y)
    assert is_bounded(stages)
    for position in (1, 63, 64, 65, keys - 1):
        wanted = by_definition(arrays, min(position + offset, keys))
        np.testing.assert_allclose(computed(proc, y, arrays, position), wanted, rtol=2e-5, atol=2e-6)


REFUSED = {
    "no block divides the keys": (131, up_to, 0),
    "a single block": (64, up_to, 0),
    "the first keys are hidden": (128, lambda p, t: t - p >= 0, 0),
    "no key may remain": (128, lambda p, t: p - t > 0, 0),
    "some hidden keys are shown": (128, lambda p, t: (p - t >= 0) | (t > 100), 0),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_loops_are_left_alone_where(reason):
    keys, mask, first = REFUSED[reason]
    arrays, y = attention(keys, mask, first)
    proc, stages = optimized(y)
    assert not is_bounded(stages)
    position = keys // 2
    shown = np.array([bool(mask(position, np.int64(t))) for t in range(keys)])
    seen = {label: array[:, shown] if label != "q" else array for label, array in arrays.items()}
    np.testing.assert_allclose(computed(proc, y, arrays, position), by_definition(seen, keys), rtol=2e-5, atol=2e-6)


def test_all_weights_are_computed_if_they_are_kept():
    _, y = attention(128)
    assert not is_bounded(optimized(y, kept=("softmax",))[1])


def test_a_query_without_keys_remains_undefined():
    """Another mask hides the keys that the symbol leaves."""
    def mask(p, t):
        return (p - t >= 0) & (t >= 80)

    arrays, y = attention(128, mask)
    proc, stages = optimized(y)
    assert is_bounded(stages)
    assert np.isnan(computed(proc, y, arrays, 60)).all()
    seen = {label: array[:, 80:] if label != "q" else array for label, array in arrays.items()}
    np.testing.assert_allclose(computed(proc, y, arrays, 100), by_definition(seen, 21), rtol=2e-5, atol=2e-6)

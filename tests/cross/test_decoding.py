"""Decoding with a key-value cache gives what the model gives for whole sequences; searches find what they promise."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from usable_backends import usable_backends

import ocannl as oc
from ocannl import nn
from ocannl.nn.sampling import log_softmax, next_tokens, softmax

VOCABULARY = 13
PROMPTS = [[1, 2, 3], [*range(VOCABULARY)] * 2 + [*range(8)]]


@oc.op
def biased(tokens: oc.Tensor, cache: Any = None) -> oc.Tensor:
    """A decoder whose positions are biases of the distance (ALiBi)."""
    x = nn.embedding(tokens, count=VOCABULARY, width=8)
    x = x + nn.attention(heads=2, causal=True, use_alibi=True)(x, None, None, cache)
    return nn.linear(x, width=VOCABULARY)


MODELS = {
    "gpt": lambda: nn.gpt(vocabulary=VOCABULARY, length=48, width=8, layers=2, heads=2),
    "llama": lambda: nn.llama(vocabulary=VOCABULARY, width=8, layers=2, heads=2, kv_heads=1, inner=12, window=5),
    "alibi": lambda: biased(),
}


def spread(net: oc.Block, ctx: oc.Context) -> None:
    """Draws weights that give distinct logits."""
    rng = np.random.default_rng(1)
    for p in net.params.values():
        ctx[p] = rng.normal(size=p.dims) * (0.5 if len(p.dims) > 1 else 0.2)


@pytest.fixture
def decoder() -> nn.Decoder:
    net, ctx = MODELS["gpt"](), oc.Context("numpy")
    decoder = nn.Decoder(net, length=48, batch=VOCABULARY**2, ctx=ctx)
    spread(net, ctx)
    return decoder


@pytest.mark.slow
@pytest.mark.sample(covering=("backend name",))
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", usable_backends())
def test_sequences_of_unequal_lengths_continue_as_whole_ones_do(backend: str, name: str) -> None:
    net, ctx = MODELS[name](), oc.Context(backend)
    decoder = nn.Decoder(net, length=48, batch=2, ctx=ctx)
    full = oc.compile(net, sizes="b, t|", ctx=ctx)
    spread(net, ctx)
    continuation = [3, 9, 0]
    logits = [decoder.start(PROMPTS, room=3), *(decoder.step([token, token]) for token in continuation)]
    for prompt, rows in zip(PROMPTS, np.stack(logits, 1), strict=True):
        wanted = full(np.array([prompt + continuation], "int32"))[0, len(prompt) - 1 :]
        np.testing.assert_allclose(rows, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", MODELS)
def test_a_step_reads_the_filled_positions_only(name: str) -> None:
    pytest.importorskip("ocannl_backend_llvm")
    decoder = nn.Decoder(MODELS[name](), length=128, batch=2, ctx=oc.Context("llvm"))
    layers = 1 if name == "alibi" else 2
    text = decoder._step._program.stages["schedule"]
    assert len(re.findall(r" in 0..floordiv\(position, 64\)\+1:", text)) == 6 * layers


def test_a_step_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, compiled = oc.Context("numpy"), []
    compile_code = ctx.compile
    monkeypatch.setattr(ctx, "compile", lambda *args, **keywords: compiled.append(1) or compile_code(*args, **keywords))
    decoder = nn.Decoder(MODELS["alibi"](), length=70, ctx=ctx, limit=1)
    for length in (3, 40, 5, 3):
        tokens = decoder.generate([1] * length, count=4)
        assert len(tokens) == 4
        assert all(0 <= token < VOCABULARY for token in tokens)
    assert len(compiled) == 4  # a step, prompts of 32 and 64 tokens, and of 32 again, since one routine is kept
    assert decoder.position == 32 + 3


@pytest.mark.slow
def test_streams_and_ends(decoder: nn.Decoder) -> None:
    greedy = decoder.generate([1, 2, 3], count=6, temperature=0)
    assert greedy == list(decoder.stream([1, 2, 3], count=6, temperature=0.0, seed=5))
    assert greedy == decoder.generate([1, 2, 3], count=6, top_k=1)
    drawn = decoder.generate([1, 2, 3], count=6, seed=5)
    assert drawn == decoder.generate([1, 2, 3], count=6, seed=5)
    rows = decoder.generate([[1, 2, 3]] * decoder.batch, count=6, stop=4, seed=5)
    assert {len(row) for row in rows} > {1, 6}
    assert all(4 not in row[:-1] for row in rows)
    assert all(len(row) == 6 or row[-1] == 4 for row in rows)


def test_beam_search_with_many_beams_is_exhaustive(decoder: nn.Decoder) -> None:
    beams = decoder.beam_search([1, 2, 3], count=3)
    full = oc.compile(decoder.model, sizes="b, t|", ctx=decoder.ctx)
    ends = np.array(list(product(range(VOCABULARY), repeat=2)), "int32")
    sequences = np.concatenate([np.tile(np.array([1, 2, 3], "int32"), (len(ends), 1)), ends], 1)
    steps = log_softmax(full(sequences)[:, 2:])
    scores = steps[np.arange(len(ends)), 0, ends[:, 0]] + steps[np.arange(len(ends)), 1, ends[:, 1]]
    totals = scores[:, None] + steps[:, 2]  # of three tokens
    best = np.argsort(-totals, None)[:5]
    for (tokens, score), index in zip(beams, best, strict=False):
        pair, last = divmod(int(index), VOCABULARY)
        assert tokens == [*ends[pair], last]
        assert abs(score - totals.flat[index]) < 1e-4
    stopped = decoder.beam_search([1, 2, 3], count=3, stop=beams[0][0][0])
    assert any(len(tokens) == 1 for tokens, _ in stopped)


def test_refusals() -> None:
    decoder = nn.Decoder(MODELS["alibi"](), length=4, batch=2, ctx=oc.Context("numpy"))
    with pytest.raises(oc.DataError, match="takes 2 prompts"):
        decoder.start([[1]])
    with pytest.raises(oc.DataError, match="takes 2 prompts of one token or more"):
        decoder.start([[1], []])
    with pytest.raises(oc.DataError, match="a prompt of 5 tokens does not fit the cache, which has 4 positions"):
        decoder.start([[1] * 5, [1]])
    with pytest.raises(oc.DataError, match="a prompt of 1 tokens and 4 more does not fit"):
        decoder.generate([1], count=5)
    decoder.start([[1] * 4, [1]])
    with pytest.raises(oc.DataError, match="the cache is full: it has 4 positions"):
        decoder.step([1, 1])


def test_next_tokens() -> None:
    rng = np.random.default_rng(0)
    logits = np.log(np.tile([[0.1, 0.5, 0.15, 0.25]], (4000, 1)))

    def shares(**settings: Any) -> Any:
        return np.bincount(next_tokens(logits, rng, **settings), minlength=4) / len(logits)

    np.testing.assert_allclose(shares(), [0.1, 0.5, 0.15, 0.25], atol=0.03)
    np.testing.assert_allclose(shares(top_k=2), [0, 2 / 3, 0, 1 / 3], atol=0.03)
    np.testing.assert_allclose(shares(top_p=0.7), [0, 2 / 3, 0, 1 / 3], atol=0.03)
    np.testing.assert_allclose(shares(top_p=0.0), [0, 1, 0, 0])
    np.testing.assert_allclose(shares(temperature=0), [0, 1, 0, 0])
    np.testing.assert_allclose(shares(temperature=0.5), softmax(2 * logits[0]), atol=0.03)

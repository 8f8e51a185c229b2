"""Decoding with cross attention gives what a transformer of PyTorch with the same weights gives for whole sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_layer import pairs, randomized, torch
from torch_sequences import Unpacked, causal
from usable_backends import usable_backends

import ocannl as oc
from ocannl import nn
from ocannl.nn.sampling import log_softmax

VOCABULARY, WIDTH = 11, 8
SOURCES = [[1, 2, 3, 4, 5], [*range(VOCABULARY)] * 3]
PROMPTS = [[1, 2, 3], [4]]
CONTINUATION = [3, 9, 0]
LONGEST = {"length": 48, "source_length": 40}


class Translator:
    """An encoder of tokens, or of vectors, and a decoder with cross attention, with the modules of PyTorch that they
    are compared with."""

    def __init__(self, of_vectors: bool = False) -> None:
        self.table = nn.embedding(count=VOCABULARY, width=WIDTH, label="table")
        settings = {"layers": 2, "heads": 2, "inner": 12, "final_norm": True}
        self.encoder, self.decoder = nn.encoder(**settings, label="encoder"), nn.decoder(**settings, label="decoder")
        self.head = nn.linear(width=VOCABULARY, label="head")
        self.of_vectors = of_vectors

    def encode(self, sources: oc.Tensor, mask: oc.Tensor) -> oc.Tensor:
        x = sources if self.of_vectors else self.table(sources)
        return self.encoder(x + nn.sinusoids(nn.positions_of(x), width=WIDTH), mask)

    def logits(self, tokens: oc.Tensor, cache: Any, memory: oc.Tensor, mask: oc.Tensor) -> oc.Tensor:
        x = self.table(tokens) + nn.sinusoids(cache.positions, width=WIDTH)
        return self.head(self.decoder(x, memory, None, mask, cache))

    def continued(self, ctx: oc.Context, **settings: Any) -> nn.Decoder:
        sizes = LONGEST | ({"source_width": WIDTH} if self.of_vectors else {})
        return nn.Decoder(self.logits, encoder=self.encode, ctx=ctx, **sizes, **settings)

    def take_weights(self, ctx: oc.Context) -> Any:
        """Draws weights. Returns a function from a source and tokens to the logits that PyTorch computes."""
        t = torch.nn
        layer = {"d_model": WIDTH, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
        modules = [
            t.Embedding(VOCABULARY, WIDTH),
            Unpacked(t.TransformerEncoder(t.TransformerEncoderLayer(**layer), 2, t.LayerNorm(WIDTH))),
            Unpacked(
                t.TransformerDecoder(t.TransformerDecoderLayer(**layer), 2, t.LayerNorm(WIDTH)),
                lambda decoder, operands: decoder(*operands, tgt_mask=~causal(operands[0].shape[1])),
            ),
            t.Linear(WIDTH, VOCABULARY),
        ]
        for block, module in zip((self.table, self.encoder, self.decoder, self.head), modules, strict=True):
            for parameter, value in pairs(block, randomized(module)):
                ctx[parameter] = value()
        table, encoder, decoder, head = modules

        def waved(x: Any) -> Any:
            angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, WIDTH, 2).double() / WIDTH)
            return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

        def logits(source: Any, tokens: Any) -> Any:
            with torch.no_grad():
                x = torch.tensor(np.asarray(source))[None]
                memory = encoder(waved(x if self.of_vectors else table(x)))
                return head(decoder((waved(table(torch.tensor([tokens]))), memory))).numpy()[0]

        return logits


@pytest.fixture
def pair() -> tuple[nn.Decoder, Any]:
    """A decoder of five sequences, and the logits of PyTorch."""
    ctx, translator = oc.Context("numpy"), Translator()
    decoder = translator.continued(ctx, batch=5)
    return decoder, translator.take_weights(ctx)


def greedy(logits: Any, source: Any, tokens: list[int], count: int) -> list[int]:
    sequence = list(tokens)
    for _ in range(count):
        sequence.append(int(logits(source, sequence)[-1].argmax()))
    return sequence[len(tokens) :]


@pytest.mark.sample(covering=("backend of_vectors",))
@pytest.mark.parametrize("of_vectors", [False, True])
@pytest.mark.parametrize("backend", usable_backends())
def test_logits_with_sources_of_unequal_lengths(backend: str, of_vectors: bool) -> None:
    ctx, translator = oc.Context(backend), Translator(of_vectors)
    decoder = translator.continued(ctx, batch=2)
    expected = translator.take_weights(ctx)
    rng = np.random.default_rng(0)
    sources = [rng.normal(size=(len(s), WIDTH)) for s in SOURCES] if of_vectors else SOURCES
    for ordered in (sources, sources[::-1]):  # the second prompt replaces the memory of the first
        logits = [decoder.start(PROMPTS, room=3, sources=ordered), *(decoder.step([t, t]) for t in CONTINUATION)]
        for prompt, source, rows in zip(PROMPTS, ordered, np.stack(logits, 1), strict=True):
            wanted = expected(source, prompt + CONTINUATION)[len(prompt) - 1 :]
            np.testing.assert_allclose(rows, wanted, rtol=0, atol=5e-5 * np.abs(wanted).max())


@pytest.mark.slow
def test_sources_remain_and_sequences_resume(pair: tuple[nn.Decoder, Any]) -> None:
    decoder, expected = pair
    source, other = SOURCES
    assert decoder.generate([1, 2], count=5, temperature=0, sources=source) == greedy(expected, source, [1, 2], 5)
    begun = decoder.generate([7], count=4, temperature=0)
    assert begun == greedy(expected, source, [7], 4)
    resumed = decoder.generate([2, 2], count=4, temperature=0, resume=True)
    assert resumed == greedy(expected, source, [7, *begun, 2, 2], 4)
    assert decoder.generate([7], count=4, temperature=0, sources=other) == greedy(expected, other, [7], 4)


@pytest.mark.slow
def test_sampling_and_beams_read_the_memory(pair: tuple[nn.Decoder, Any]) -> None:
    decoder, expected = pair
    drawn = decoder.generate([1], count=6, top_k=3, seed=4, sources=SOURCES[1])
    assert drawn == decoder.generate([1], count=6, top_k=3, seed=4)
    for number, token in enumerate(drawn):
        assert token in np.argsort(expected(SOURCES[1], [1, *drawn[:number]])[-1])[-3:]
    for source in SOURCES:
        beams = decoder.beam_search([1], count=4, source=source)
        assert len(beams) == 5
        for tokens, score in beams:
            steps = log_softmax(expected(source, [1, *tokens[:-1]]))
            assert abs(score - steps[np.arange(4), tokens].sum()) < 1e-4
        first = log_softmax(expected(source, [1]))[0]
        second = np.array([log_softmax(expected(source, [1, token]))[1] for token in range(VOCABULARY)])
        pairs_of = np.sort((first[:, None] + second).ravel())[-1]
        assert abs(decoder.beam_search([1], count=2, source=source)[0][1] - pairs_of) < 1e-4


@pytest.mark.slow
def test_the_encoder_runs_once_for_sources(pair: tuple[nn.Decoder, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, _ = pair
    assert decoder._sources is not None
    calls, encode = [], decoder._sources._encode
    monkeypatch.setattr(decoder._sources, "_encode", lambda *arrays: calls.append(1) or encode(*arrays))
    decoder.generate([1], count=4, sources=SOURCES[0])
    decoder.generate([2], count=4)
    assert len(calls) == 1


@pytest.mark.slow
def test_refusals(pair: tuple[nn.Decoder, Any]) -> None:
    decoder, _ = pair
    with pytest.raises(oc.DataError, match="has an encoder: give the first prompts `sources=`"):
        decoder.generate([1], count=2)
    with pytest.raises(oc.CodeError, match="call `start` or `generate` first"):
        decoder.extend([[1]] * 5)
    with pytest.raises(oc.DataError, match="takes 5 sources of one position or more, not 1"):
        decoder.start([[1]] * 5, sources=[[1]])
    with pytest.raises(oc.DataError, match="a source of 41 positions is too long: `source_length` is 40"):
        decoder.generate([1], count=2, sources=[1] * 41)
    with pytest.raises(oc.DataError, match="a source is a list of tokens, not an array of float64"):
        decoder.generate([1], count=2, sources=[1.5])
    decoder.generate([1], count=2, sources=[1])
    with pytest.raises(oc.DataError, match="give no `sources=`"):
        decoder.generate([1], count=2, sources=[1], resume=True)
    with pytest.raises(oc.DataError, match="extended by 5 prompts of one length"):
        decoder.extend([[1]] * 4 + [[1, 2]])
    with pytest.raises(oc.ArgumentError, match="takes both `encoder=` and `source_length=`"):
        nn.Decoder(decoder.model, encoder=lambda x, mask: x, length=4)
    with pytest.raises(oc.ArgumentError, match="returns a tensor `b, s|c`"):
        nn.Decoder(decoder.model, encoder=lambda x, mask: x, length=4, source_length=4)
    plain = nn.Decoder(nn.gpt(vocabulary=5, length=4, width=4, layers=1, heads=1), length=4, ctx=oc.Context("numpy"))
    with pytest.raises(oc.DataError, match="takes no sources"):
        plain.generate([1], count=1, sources=[1])

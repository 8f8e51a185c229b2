"""Decoding: sequences continued by a model, token by token, with a key-value cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.errors import ArgumentError, CodeError, DataError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang import api as oc
from ocannl.lang.api import Block, Tensor
from ocannl.lang.dtypes import int32
from ocannl.nn.cache import CacheView, KeyValueCache
from ocannl.nn.encoded_sources import EncodedSources, Encoder
from ocannl.nn.sampling import log_softmax, next_tokens
from ocannl.runtime.context import Context, default_context
from ocannl.runtime.routine import Routine

Array = np.ndarray[Any, Any]
Prompts = Sequence[int] | Sequence[Sequence[int]]

PROMPT_STEP = 32
"""Prompts are padded to a multiple of this many tokens, so that few routines serve all of them."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The routine that fills the cache with prompts of one padded length."""

    routine: Routine
    tokens: Tensor
    logits: Tensor


@public_class()
class Decoder:
    """A model that continues `batch` sequences of up to `length` tokens each, prompts included.

        decoder = nn.Decoder(net, length=256, ctx=ctx)
        text = decoder.generate(prompt, count=100, temperature=0.8, top_k=40)

    `model(tokens, cache)` returns logits, `b, t|vocabulary`, as `nn.gpt` and `nn.llama` do. Each token is one call of a
    routine that is compiled once: the position is a static symbol, at which keys and values are written to a cache. Of
    the routines for prompts, one for each multiple of 32 tokens, `limit` are kept. Parameters without a value in the
    context are initialized.

    With an `encoder`, prompts have sources of up to `source_length` tokens, or with `source_width` vectors:
    `encoder(sources, mask)` returns their memory, `b, s|c`, and `model(tokens, cache, memory, memory_mask)` the logits.
    The encoder runs once for the sources, and cross attention computes its keys and values once for a prompt.
    """

    def __init__(
        self, model: Block | Callable[..., Tensor], *, length: int, batch: int = 1, encoder: Encoder | None = None,
        source_length: int | None = None, source_width: int | None = None, ctx: Context | None = None, limit: int = 8,
    ) -> None:  # fmt: skip
        self.length, self.batch, self.limit = length, batch, limit
        self.ctx = default_context() if ctx is None else ctx
        self.model = model
        self._starts = oc.placeholder("starts", batch=[batch], output=[], dtype=int32)
        self._token = oc.placeholder("token", batch=[batch, 1], output=[], dtype=int32)
        self._parents = oc.placeholder("parents", batch=[batch], output=[], dtype=int32)
        self._cache = KeyValueCache(length, self._starts)
        self._position = 0
        self._last: Array | None = None  # the tokens that a stream has yielded last, which the cache does not hold yet
        self._sources = self._encoded_sources(encoder, source_length, source_width)
        self._logits = self._last_logits(self._token, self._cache.step(oc.symbol("position", 0, length)))
        self.ctx.init(self._logits)
        if self._sources is not None:  # steps read no parameters of keys and values of the memory
            self.ctx.init(self._last_logits(self._token, self._cache.prompt(1)))
        self._step = self.ctx.compile(self._logits.forward, name="step")
        self._prompts: OrderedDict[int, _Prompt] = OrderedDict()
        self._reorder: Routine | None = None

    @property
    def position(self) -> int:
        """The number of positions of the cache that are filled."""
        return self._position

    def _encoded_sources(
        self, encoder: Encoder | None, length: int | None, width: int | None
    ) -> EncodedSources | None:
        if encoder is None and length is None and width is None:
            return None
        if encoder is None or length is None:
            raise ArgumentError("a decoder with cross attention takes both `encoder=` and `source_length=`")
        return EncodedSources(encoder, length=length, width=width, batch=self.batch, ctx=self.ctx, limit=self.limit)

    def _last_logits(self, tokens: Tensor, view: CacheView) -> Tensor:
        """The logits at the last position of tokens, in inference."""
        memory = () if self._sources is None else (self._sources.memory, self._sources.mask)
        with oc.training(False):
            return oc.einsum(f"..., {tokens.dims[-1] - 1}|v => ...|v", self.model(tokens, view, *memory))

    def start(self, prompts: Sequence[Sequence[int]], room: int = 0, sources: Sequence[Any] | None = None) -> Array:
        """Fills the cache with prompts, of any lengths, and leaves positions for `room` more tokens. Returns the logits
        of the next tokens, `(batch, vocabulary)`.

        A decoder with an encoder takes a source for each prompt; by default, those of the last prompts remain.
        Raises: DataError for another number of prompts, an empty prompt, prompts that are too long, or sources that do
        not fit.
        """
        longest = max(map(len, prompts), default=0)
        if len(prompts) != self.batch or not all(map(len, prompts)):
            raise DataError(f"this decoder takes {self.batch} prompts of one token or more, not {len(prompts)}")
        if longest + room > self.length:
            more = f" and {room} more" if room else ""
            raise DataError(
                f"a prompt of {longest} tokens{more} does not fit the cache, which has {self.length} positions"
            )
        if sources is not None and self._sources is None:
            raise DataError("this decoder takes no sources: it has no encoder")
        if sources is not None and self._sources is not None:
            self._sources.encode(sources)
        if self._sources is not None and not self._sources.is_set:
            raise DataError("this decoder has an encoder: give the first prompts `sources=`")
        count = min(-(-longest // PROMPT_STEP) * PROMPT_STEP, self.length - room)
        prompt = self._prompt(count)
        padded = np.zeros((self.batch, count), "int32")
        for row, tokens in zip(padded, prompts, strict=True):
            row[count - len(tokens) :] = tokens
        self.ctx.set(self._starts, np.array([count - len(tokens) for tokens in prompts], "int32"))
        self.ctx.set(prompt.tokens, padded)
        prompt.routine()
        self._position, self._last = count, None
        return self.ctx.get(prompt.logits)

    def step(self, tokens: object) -> Array:
        """Appends one token to each sequence. Returns the logits of their next tokens, `(batch, vocabulary)`.

        Raises: DataError if the cache is full.
        """
        if self._position == self.length:
            raise DataError(f"the cache is full: it has {self.length} positions; make a decoder with another `length`")
        self.ctx.set(self._token, np.reshape(np.asarray(tokens, "int32"), (self.batch, 1)))
        self._step(position=self._position)
        self._position += 1
        self._last = None
        return self.ctx.get(self._logits)

    def extend(self, prompts: Sequence[Sequence[int]]) -> Array:
        """Appends a prompt to each sequence, token by token, after the tokens that a stream has yielded. Returns the
        logits of the next tokens, `(batch, vocabulary)`.

        Raises: DataError for prompts of unequal lengths, or if the cache is full; CodeError before `start`.
        """
        if not self._position:
            raise CodeError("a decoder extends the sequences that it has: call `start` or `generate` first")
        if len(prompts) != self.batch or not len(prompts[0]) or len({len(tokens) for tokens in prompts}) > 1:
            raise DataError(f"sequences are extended by {self.batch} prompts of one length, one token or more")
        for tokens in (*(() if self._last is None else (self._last,)), *zip(*prompts, strict=True)):
            logits = self.step(tokens)
        return logits

    def stream(
        self, prompts: Prompts, *, count: int, temperature: float = 1.0, top_k: int | None = None,
        top_p: float | None = None, stop: int | None = None, seed: int = 0, sources: Any = None, resume: bool = False,
    ) -> Iterator[Any]:  # fmt: skip
        """Yields up to `count` new tokens of a prompt one after another: integers, or for a list of prompts, arrays of
        one token for each.

        Tokens are drawn by `softmax(logits / temperature)`, at temperature 0 the likeliest. `top_k` leaves the k
        likeliest, `top_p` those that together have at least this probability. A sequence ends with the token `stop`,
        which then fills it. `sources` are those of `start`, for a single prompt one source. With `resume`, the prompts
        continue the sequences that the cache holds.
        """
        is_single = bool(prompts) and not isinstance(prompts[0], Sequence | np.ndarray)
        listed: Any = [prompts] * self.batch if is_single else prompts
        if is_single and sources is not None:
            sources = [sources] * self.batch
        if resume and sources is not None:
            raise DataError("sequences are resumed with the sources that they have: give no `sources=`")
        rng, ended = np.random.default_rng(seed), np.zeros(self.batch, bool)
        logits = self.extend(listed) if resume else self.start(listed, max(count - 1, 0), sources)
        for number in range(count):
            tokens = next_tokens(logits, rng, temperature, top_k, top_p)
            if stop is not None:
                tokens = np.where(ended, stop, tokens)
                ended |= tokens == stop
            self._last = tokens
            yield int(tokens[0]) if is_single else tokens
            if ended.all() or number == count - 1:
                return
            logits = self.step(tokens)

    def generate(self, prompts: Prompts, **settings: Any) -> list[Any]:
        """The tokens of `stream`, with the same settings: a list, or for a list of prompts a list of lists, each up to
        the first `stop`."""
        tokens = list(self.stream(prompts, **settings))
        if not tokens or isinstance(tokens[0], int):
            return tokens
        stop = settings.get("stop")
        rows = [[int(token) for token in row] for row in np.stack(tokens, 1)]
        return [row if stop not in row else row[: row.index(stop) + 1] for row in rows]

    def beam_search(
        self, prompt: Sequence[int], *, count: int, stop: int | None = None, source: Any = None
    ) -> list[tuple[list[int], float]]:
        """The `batch` likeliest continuations of a prompt by up to `count` tokens that a search with as many beams
        finds, with their log-probabilities, the likeliest first."""
        sources = None if source is None else [source] * self.batch
        logits = self.start([prompt] * self.batch, max(count - 1, 0), sources)
        scores = np.full(self.batch, -np.inf)
        scores[0] = 0.0  # all beams are equal at first
        beams: list[list[int]] = [[] for _ in range(self.batch)]
        for number in range(count):
            ended = np.array([stop is not None and stop in beam for beam in beams])
            steps = log_softmax(logits.astype("float64"))
            if ended.any():
                steps[ended] = -np.inf
                steps[ended, stop] = 0.0
            totals = scores[:, None] + steps
            chosen = np.argsort(-totals, None, kind="stable")[: self.batch]
            parents, tokens = np.divmod(chosen, totals.shape[1])
            scores = totals.ravel()[chosen]
            beams = [
                beams[parent] + ([] if ended[parent] else [int(token)])
                for parent, token in zip(parents, tokens, strict=True)
            ]
            if number == count - 1 or all(stop is not None and stop in beam for beam in beams):
                break
            self._select(parents)
            logits = self.step(tokens)
        return list(zip(beams, scores.tolist(), strict=True))

    def _select(self, parents: Array) -> None:
        """Replaces the sequences of the cache by those of the given rows."""
        if (parents == np.arange(self.batch)).all():
            return
        if self._reorder is None:
            with oc.cd("reorder") as code:
                for block in self._cache.blocks:
                    for state in block.states.values():
                        rows = oc.einsum("s, b|..o.. => b, s, ..o..", state).take(self._parents)
                        state[...] = oc.einsum("b|s, ..o.. => s, b|..o..", rows)
            self._reorder = self.ctx.compile(code)
        self.ctx.set(self._parents, parents.astype("int32"))
        self._reorder()

    def _prompt(self, count: int) -> _Prompt:
        if count not in self._prompts:
            tokens = oc.placeholder("prompt", batch=[self.batch, count], output=[], dtype=int32)
            logits = self._last_logits(tokens, self._cache.prompt(count))
            routine = self.ctx.compile(logits.forward, name=f"prompt_{count}")
            self._prompts[count] = _Prompt(routine, tokens, logits)
            while len(self._prompts) > self.limit:
                self._prompts.popitem(last=False)
        self._prompts.move_to_end(count)
        return self._prompts[count]

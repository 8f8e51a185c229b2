"""Characters: language models of words from the names of Unicode characters, and of the documentation of Python.

`MODELS` is the progression of Karpathy's makemore: a table of pairs, a perceptron over the last characters (Bengio et
al. 2003), a recurrent network, a transformer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from ocannl import nn, train
from ocannl.demos.report import Report, timing
from ocannl.lang.api import Block, Tensor, op, placeholder
from ocannl.lang.dtypes import int32
from ocannl.lang.ops.functions import cross_entropy, einsum, tanh
from ocannl.runtime.context import Context

Array = np.ndarray[Any, Any]

END = "."
SAMPLE = 80  # characters that are drawn
VALIDATION_SHARE = 10  # the last part of so many is not trained on


@dataclass(frozen=True)
class Corpus:
    """A text; `prompt` is how samples begin."""

    text: str
    prompt: str

    @cached_property
    def alphabet(self) -> str:
        return "".join(sorted(set(self.text)))

    def encoded(self, text: str) -> list[int]:
        """The number of each character in the alphabet."""
        return [self.alphabet.index(character) for character in text]

    def decoded(self, tokens: Iterator[int]) -> Iterator[str]:
        return map(self.alphabet.__getitem__, tokens)

    def windows(self, length: int) -> tuple[Array, Array]:
        """Rows of `length + 1` tokens, each beginning with the last of the row before: to train on, and to validate."""
        numbers = {character: number for number, character in enumerate(self.alphabet)}
        tokens = np.fromiter(map(numbers.__getitem__, self.text), "int32", len(self.text))
        starts = np.arange(0, len(tokens) - length, length)
        rows = tokens[starts[:, None] + np.arange(length + 1)]
        count = len(rows) - len(rows) // VALIDATION_SHARE
        return rows[:count], rows[count:]


def words_of_unicode() -> Corpus:
    """The words of three letters and more in the names of all characters, shuffled."""
    names = (unicodedata.name(chr(code), "") for code in range(0x110000))
    words = {word.lower() for name in names for word in name.split() if word.isalpha() and len(word) > 2}
    order = np.random.default_rng(0).permutation(len(words))
    ordered = sorted(words)
    return Corpus(END + END.join(ordered[number] for number in order) + END, END)


def documentation_of_python() -> Corpus:
    """The pages of `help()`."""
    from pydoc_data.topics import topics

    return Corpus("\n".join(topics[name] for name in sorted(topics)), "The ")


# --- models: logits of the next character, at every position ----------------------------------------------------------


@op
def bigram(tokens: Tensor, *, vocabulary: int) -> Tensor:
    return nn.embedding(tokens, count=vocabulary, width=vocabulary, label="logits")


@op
def perceptron(tokens: Tensor, *, vocabulary: int, context: int = 8, width: int = 24, hidden: int = 128) -> Tensor:
    embedded = nn.embedding(tokens, count=vocabulary, width=width, label="characters")
    last = einsum(f"..b.., t[{context - 1},0]+k|c => ..b.., t|k, c", embedded, k=context)
    return nn.mlp(last, widths=[hidden, vocabulary], activation=tanh, label="mlp")


@op
def recurrent(tokens: Tensor, *, vocabulary: int, width: int = 128) -> Tensor:
    embedded = nn.embedding(tokens, count=vocabulary, width=32, label="characters")
    return nn.linear(nn.gru(embedded, width=width, label="gru"), width=vocabulary, label="logits")


def transformer(*, vocabulary: int, length: int) -> Block:
    return nn.gpt(vocabulary=vocabulary, length=length, width=64, layers=2, heads=4, label="gpt")


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """How a model is built for a vocabulary and a length of windows, and the rate that suits it."""

    build: Callable[..., Block]
    rate: float


MODELS: Mapping[str, LanguageModel] = {
    "bigram": LanguageModel(lambda vocabulary, length: bigram(vocabulary=vocabulary, label="bigram"), 3e-2),
    "perceptron": LanguageModel(lambda vocabulary, length: perceptron(vocabulary=vocabulary, label="perceptron"), 5e-3),
    "recurrent": LanguageModel(lambda vocabulary, length: recurrent(vocabulary=vocabulary, label="recurrent"), 5e-3),
    "transformer": LanguageModel(lambda vocabulary, length: transformer(vocabulary=vocabulary, length=length), 3e-3),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A corpus, a model of it, and the cross-entropy per character of text that the model was not trained on, in nats,
    that every seed reaches."""

    corpus: Callable[[], Corpus]
    model: LanguageModel
    length: int
    batch: int
    required: float


NATS = {"bigram": 2.6, "perceptron": 2.4, "recurrent": 2.3, "transformer": 2.3}


def names_task(model: str) -> Task:
    return Task(words_of_unicode, MODELS[model], length=32, batch=64, required=NATS[model])


NAMES = names_task("transformer")
TEXT = Task(documentation_of_python, MODELS["transformer"], length=64, batch=32, required=2.4)


def run(task: Task, ctx: Context, *, epochs: int, seed: int) -> Report:
    corpus = task.corpus()
    data, held_out = batches_of(corpus, task, seed)
    model = task.model.build(vocabulary=len(corpus.alphabet), length=task.length)
    tokens, following = data.placeholders
    fitted = train.fit(
        model, loss=cross_entropy, optimizer=partial(_optimizer, rate=task.model.rate), data=data, ctx=ctx,
        epochs=epochs, show=False,
    )  # fmt: skip
    nats = train.evaluate(ctx, {"nats": train.average(cross_entropy(model(tokens), following))}, held_out)["nats"]
    sample = "".join(corpus.decoded(_continuation(model, corpus.encoded(corpus.prompt), task.length, ctx, seed)))
    cells = sum(prod(p.dims) for p in model.params.values())
    lines = {
        "network": f"{model.label}, {cells} parameters, {len(fitted.losses)} steps of {task.batch} x {task.length}",
        "validation": f"{nats:.4f} nats per character",
    }
    return Report(-nats, -task.required, lines | timing(fitted) | {"sample": corpus.prompt + sample})


def _optimizer(loss: Tensor, rate: float) -> Any:
    return train.adamw(loss, rate, weight_decay=0.01)


def batches_of(corpus: Corpus, task: Task, seed: int) -> tuple[train.Batches, train.Batches]:
    """Batches of windows with the characters that follow: to train on, and to validate."""
    rows, validation = corpus.windows(task.length)
    tokens, following = (
        placeholder(label, batch=[task.batch, task.length], output=[], dtype=int32) for label in ("tokens", "following")
    )
    inputs = {tokens: "tokens", following: "following"}
    data = train.batches(_columns(rows), task.batch, inputs=inputs, shuffle=seed, partial="drop")
    return data, train.batches(_columns(validation), task.batch, inputs=inputs, partial="drop")


def _columns(rows: Array) -> dict[str, Array]:
    return {"tokens": rows[:, :-1], "following": rows[:, 1:]}


def _continuation(model: Block, tokens: list[int], length: int, ctx: Context, seed: int) -> Iterator[int]:
    """Tokens drawn one after another, each from the logits after the last `length` of those before."""
    window = placeholder("window", batch=[1, length], output=[], dtype=int32)
    logits = model(window)
    step = ctx.compile(logits.forward, name="sample")
    random = np.random.default_rng(seed)
    for _ in range(SAMPLE):
        last = tokens[-length:]
        ctx[window] = np.array([last + [0] * (length - len(last))], "int32")
        step()
        drawn = ctx[logits][0, len(last) - 1] + random.gumbel(size=logits.dims[-1])  # Gumbel-max sampling
        tokens = [*tokens, int(drawn.argmax())]
        yield tokens[-1]

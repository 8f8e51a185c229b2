"""Sums of numbers as texts: one recurrent network reads `64+57` character by character, and another writes `121`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ocannl import nn, train
from ocannl.demos.report import Report, timing
from ocannl.lang.api import Block, Tensor, op, placeholder
from ocannl.lang.dtypes import int32
from ocannl.lang.ops.functions import cross_entropy
from ocannl.runtime import compiled_function
from ocannl.runtime.context import Context

Array = np.ndarray[Any, Any]

START = "="
ALPHABET = f"0123456789+ {START}"
NUMBERS = 100  # terms are smaller
QUESTION, ANSWER = len("99+99"), len("198")
PAIRS, TEST_PAIRS = 8_000, 1_000
BATCH, RATE, WIDTH = 100, 5e-3, 128
REQUIRED = 0.97  # of the test sums are right in all digits
SHOWN = 3  # test sums in the report


@dataclass(frozen=True, slots=True)
class Sums:
    """Rows of characters: questions, answers, and what precedes each character of an answer."""

    question: Array
    previous: Array
    answer: Array


def load(seed: int) -> tuple[Sums, Sums]:
    """Different pairs of numbers, drawn by `seed`: to train on, and to test with."""
    pairs = np.random.default_rng(seed).permutation(NUMBERS**2)
    train_pairs, test_pairs = np.split(pairs[: PAIRS + TEST_PAIRS], [PAIRS])
    return _sums(train_pairs), _sums(test_pairs)


def _sums(pairs: Array) -> Sums:
    terms = np.stack(np.divmod(pairs, NUMBERS), 1).tolist()
    answer = encoded([f"{a + b}" for a, b in terms], ANSWER)
    previous = np.concatenate([encoded([START] * len(terms), 1), answer[:, :-1]], 1)
    return Sums(encoded([f"{a}+{b}" for a, b in terms], QUESTION), previous, answer)


def encoded(texts: Sequence[str], length: int) -> Array:
    """The numbers of characters in the alphabet, from the last one of a text to the first, so that the first digit that
    is written depends on few characters (as in Sutskever, Vinyals, Le 2014)."""
    numbers = {character: number for number, character in enumerate(ALPHABET)}
    return np.array([[numbers[character] for character in text[::-1].ljust(length)] for text in texts], "int32")


def decoded(numbers: Array) -> str:
    return "".join(ALPHABET[number] for number in numbers[::-1]).strip()


@op
def adder(question: Tensor, previous: Tensor, *, width: int = WIDTH) -> Tensor:
    """Logits of the characters of an answer. The network that writes it begins with the last state of the one that
    reads the question."""
    characters = nn.embedding(count=len(ALPHABET), width=32, label="characters")
    _, states = nn.gru(characters(question), width=width, return_states=True, label="reader")
    written = nn.gru(characters(previous), None, states, width=width, label="writer")
    return nn.linear(written, width=len(ALPHABET), label="logits")


def batches_of(rows: Sums, test: Sums, seed: int) -> tuple[train.Batches, train.Batches]:
    sizes = {"question": QUESTION, "previous": ANSWER, "answer": ANSWER}
    inputs = {placeholder(name, batch=[BATCH, size], output=[], dtype=int32): name for name, size in sizes.items()}
    data = train.batches({name: getattr(rows, name) for name in sizes}, BATCH, inputs=inputs, shuffle=seed)
    return data, data.of({name: getattr(test, name) for name in sizes})


def exact_match(logits: Tensor, target: Tensor) -> train.Metric:
    """The share of rows whose characters are all the most probable ones.

    Each is predicted from the correct ones before it. That answers the question what a decoder would write that always
    takes the most probable character: it writes the correct ones up to the first that is mispredicted.
    """

    def part(logits: Array, target: Array) -> Array:
        hits = (logits.argmax(-1) == target).all(-1)
        return np.array([np.count_nonzero(hits), hits.size])

    return train.Metric((logits, target), part, lambda state: float(state[0] / state[1]))


def adam(loss: Tensor, steps: int) -> Any:
    return train.adam(loss, train.cosine_decay(RATE, steps))


def run(ctx: Context, *, epochs: int, seed: int) -> Report:
    rows, test = load(seed)
    data, held_out = batches_of(rows, test, seed)
    model = adder(label="adder")
    fitted = train.fit(
        model, loss=cross_entropy, optimizer=partial(adam, steps=epochs * len(data)), data=data, ctx=ctx, epochs=epochs,
        validation=held_out, metrics={"exact": exact_match}, show=False,
    )  # fmt: skip
    score = fitted.watched[-1]["exact"]
    cells = sum(prod(p.dims) for p in model.params.values())
    lines = {
        "network": f"adder, {cells} parameters, {len(fitted.losses)} steps of {BATCH} sums",
        "test sums": f"{score:.4f} of {TEST_PAIRS} are right in all digits",
    }
    questions = map(decoded, test.question[:SHOWN])
    sums = ", ".join(f"{question} = {sum_by(model, question, ctx)}" for question in questions)
    return Report(score, REQUIRED, lines | timing(fitted) | {"sample": sums})


def sum_by(model: Block, question: str, ctx: Context) -> str:
    """What the model writes for a question, always taking the most probable character."""
    logits_of = compiled_function.compile(model, sizes=["b, q|", "b, t|"], ctx=ctx)
    read, written = encoded([question], QUESTION), encoded([START], 1)
    for _ in range(ANSWER):
        likeliest = logits_of(read, written)[:, -1:].argmax(-1)
        written = np.concatenate([written, likeliest.astype("int32")], 1)
    return decoded(written[0, 1:])

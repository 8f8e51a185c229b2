"""The digits of the demonstration: the data in three parts, the network, its training, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.lang.api import Tensor, op, param, symbol, tensor
from ocannl.runtime.context import Context
from ocannl.train.fit import Fitted, fit
from ocannl.train.step import sgd

Array = np.ndarray[Any, Any]

SIDE, CLASSES = 8, 10
TRAINED, WATCHED, TESTED = 1300, 197, 300


@dataclass(frozen=True, slots=True)
class Part:
    """Pictures, row by row, with ink from 0 to 1, and what they show."""

    images: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Digits:
    """`train` decides the parameters, `watch` is looked at while they are learned, `test` once, at the end."""

    train: Part
    watch: Part
    test: Part


def load(seed: int) -> Digits:
    """The 1797 handwritten digits that come with scikit-learn, in an order drawn by `seed`.

    Raises: ImportError when scikit-learn is missing.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = (images[order] / 16).astype("float32"), labels[order]
    ends = (TRAINED, TRAINED + WATCHED, TRAINED + WATCHED + TESTED)
    parts = zip(np.split(images, ends)[:3], np.split(labels, ends)[:3], strict=True)
    return Digits(*(Part(*part) for part in parts))


@op
def mlp(x: Tensor, *, hidden: int, classes: int) -> Tensor:
    w1 = param(o=[hidden])
    b1 = param(0.0, o=[hidden])
    w2 = param()
    b2 = param(0.0, o=[classes])
    return w2 @ (w1 @ x + b1).relu() + b2


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """For each picture; `target` has a one at the right class. The largest logit is taken off: nothing overflows."""
    shifted = logits - logits.max("...|... => ...|0")
    log_sum = shifted.exp().sum("...|... => ...|0").log()
    return ((log_sum - shifted) * target).sum("...|... => ...|0")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trained network and its answers to the part kept for the end."""

    parameters: int
    fitted: Fitted
    answers: Array


def train(ctx: Context, digits: Digits, *, epochs: int, hidden: int, batch: int, rate: float, seed: int) -> Outcome:
    """The whole step, forward, backprop and update, is one routine; which batch it takes is said at each call.

    What is left over when the pictures are cut into batches is not used.
    """
    count = len(digits.train) // batch
    images = digits.train.images[: count * batch].reshape(count, batch, SIDE * SIDE)
    wanted = np.eye(CLASSES, dtype="float32")[digits.train.labels[: count * batch]].reshape(count, batch, CLASSES)
    n = symbol("n", 0, count)
    x = tensor(images, batch_axes=2, label="images")[n]
    target = tensor(wanted, batch_axes=2, label="target")[n]

    net = mlp(hidden=hidden, classes=CLASSES)
    loss = cross_entropy(net(x), target).sum() / batch
    watched, tested = (net(tensor(part.images, batch_axes=1)) for part in (digits.watch, digits.test))
    ctx.init(loss, seed=seed)
    look = ctx.compile(watched.forward, "watch")

    def accuracy() -> dict[str, float]:
        look()
        return {"accuracy": float(np.mean(ctx[watched].argmax(axis=1) == digits.watch.labels))}

    fitted = fit(ctx, loss, sgd(loss, rate, momentum=0.9), n, epochs=epochs, shuffle=seed, watch=accuracy)
    ctx.run(tested.forward)
    return Outcome(sum(prod(p.dims) for p in net.params.values()), fitted, ctx[tested].argmax(axis=1))

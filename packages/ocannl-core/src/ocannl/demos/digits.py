"""The digits demonstration: data, network, training and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.lang.api import Tensor, op, param, symbol, tensor
from ocannl.runtime.context import Context
from ocannl.train.fit import Fitted, fit
from ocannl.train.sgd import sgd

Array = np.ndarray[Any, Any]

SIDE, CLASSES = 8, 10
TRAIN_SIZE, VALIDATION_SIZE, TEST_SIZE = 1300, 197, 300


@dataclass(frozen=True, slots=True)
class Split:
    """Images, flattened to rows with values from 0 to 1, and their labels."""

    images: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Digits:
    """The training, validation and test sets."""

    train: Split
    validation: Split
    test: Split


def load(seed: int) -> Digits:
    """The 1797 handwritten digits that come with scikit-learn, shuffled by `seed`.

    Raises: ImportError when scikit-learn is missing.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = (images[order] / 16).astype("float32"), labels[order]
    ends = (TRAIN_SIZE, TRAIN_SIZE + VALIDATION_SIZE, TRAIN_SIZE + VALIDATION_SIZE + TEST_SIZE)
    splits = zip(np.split(images, ends)[:3], np.split(labels, ends)[:3], strict=True)
    return Digits(*(Split(*split) for split in splits))


@op
def mlp(x: Tensor, *, hidden: int, classes: int) -> Tensor:
    w1 = param(o=[hidden])
    b1 = param(0.0, o=[hidden])
    w2 = param()
    b2 = param(0.0, o=[classes])
    return w2 @ (w1 @ x + b1).relu() + b2


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The cross-entropy of each image; `target` is one-hot. Subtracting the largest logit prevents overflow."""
    shifted = logits - logits.max("...|... => ...|0")
    log_sum = shifted.exp().sum("...|... => ...|0").log()
    return ((log_sum - shifted) * target).sum("...|... => ...|0")


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A training run and its predictions for the test set."""

    parameters: int
    fitted: Fitted
    predictions: Array


def train(
    ctx: Context, digits: Digits, *, epochs: int, hidden: int, batch: int, rate: float, seed: int
) -> TrainingResult:
    """Trains the network by a single routine (forward, backprop and update), whose argument selects the batch.

    An incomplete last batch is dropped.
    """
    count = len(digits.train) // batch
    images = digits.train.images[: count * batch].reshape(count, batch, SIDE * SIDE)
    one_hot = np.eye(CLASSES, dtype="float32")[digits.train.labels[: count * batch]].reshape(count, batch, CLASSES)
    n = symbol("n", 0, count)
    x = tensor(images, batch_axes=2, label="images")[n]
    target = tensor(one_hot, batch_axes=2, label="target")[n]

    net = mlp(hidden=hidden, classes=CLASSES)
    loss = cross_entropy(net(x), target).sum() / batch
    validation, test = (net(tensor(split.images, batch_axes=1)) for split in (digits.validation, digits.test))
    ctx.init(loss, seed=seed)
    validate = ctx.compile(validation.forward, "watch")

    def accuracy() -> dict[str, float]:
        validate()
        return {"accuracy": float(np.mean(ctx[validation].argmax(axis=1) == digits.validation.labels))}

    fitted = fit(ctx, loss, sgd(loss, rate, momentum=0.9), n, epochs=epochs, shuffle=seed, watch=accuracy)
    ctx.run(test.forward)
    return TrainingResult(sum(prod(p.dims) for p in net.params.values()), fitted, ctx[test].argmax(axis=1))

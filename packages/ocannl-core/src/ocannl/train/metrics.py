"""Metrics: numbers that describe a model, accumulated over batches.

A metric has operands, which are computed for each batch, and a state that collects their arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ocannl.base.errors import ArgumentError, DataError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.core.tensor import Tensor

Array = np.ndarray[Any, Any]
Average = Literal["macro", "micro", "weighted", "binary"]


@public_class()
@dataclass(frozen=True, slots=True)
class Metric:
    """A metric over batches: `part` maps the arrays of a batch to an array, these are combined by `combine`, and
    `result` maps what they combine to, to the value of the metric."""

    operands: tuple[Tensor, ...]
    part: Callable[..., Any]
    result: Callable[[Any], Any]
    combine: Callable[[Any, Any], Any] = np.add

    def add(self, state: Any, *arrays: Array) -> Any:
        """The state with the arrays of one more batch; the first state is None."""
        part = self.part(*arrays)
        return part if state is None else self.combine(state, part)


def average(values: Tensor) -> Metric:
    """The mean of all cells, such as those of a loss of each row."""
    return Metric((values,), lambda v: np.array([np.sum(v, dtype=np.float64), v.size]), _ratio)


def perplexity(losses: Tensor) -> Metric:
    """The exponential of the mean of cross-entropies in nats."""
    return Metric((losses,), average(losses).part, lambda state: float(np.exp(_ratio(state))))


def accuracy(logits: Tensor, target: Tensor) -> Metric:
    """The fraction of rows whose greatest logit is that of the target, class ids or distributions."""
    return top_k_accuracy(logits, target, k=1)


def top_k_accuracy(logits: Tensor, target: Tensor, k: int = 5) -> Metric:
    """The fraction of rows whose target is among the `k` classes with the greatest logits."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ArgumentError(f"train.top_k_accuracy: `k` is an integer of at least 1, not {k!r}"[:200])

    def part(logits: Array, target: Array) -> Array:
        ids = _class_ids(logits, target)
        if k == 1:
            hits = logits.argmax(axis=-1) == ids
        else:
            scores = np.take_along_axis(logits, ids[..., None].astype(np.intp), axis=-1)
            hits = (logits > scores).sum(axis=-1) < k
        return np.array([np.count_nonzero(hits), hits.size])

    return Metric((logits, target), part, _ratio)


def confusion_matrix(logits: Tensor, target: Tensor) -> Metric:
    """The number of rows by target class, and by predicted class: the class of the greatest logit."""
    return Metric((logits, target), _confusion, lambda state: state)


def precision(logits: Tensor, target: Tensor, average: Average = "macro") -> Metric:
    """The fraction of the predictions of a class that are correct.

    `average` is that of scikit-learn: "macro", the mean over classes that occur; "weighted", by the number of rows of a
    class; "micro", over all rows; "binary", of class 1 alone.
    """
    return _by_class("precision", logits, target, average, lambda hits, true, predicted: _divided(hits, predicted))


def recall(logits: Tensor, target: Tensor, average: Average = "macro") -> Metric:
    """The fraction of the rows of a class that are predicted. `average` is that of `train.precision`."""
    return _by_class("recall", logits, target, average, lambda hits, true, predicted: _divided(hits, true))


def f1_score(logits: Tensor, target: Tensor, average: Average = "macro") -> Metric:
    """The harmonic mean of precision and recall. `average` is that of `train.precision`."""

    def score(hits: Array, true: Array, predicted: Array) -> Array:
        return _divided(2 * hits, true + predicted)

    return _by_class("f1_score", logits, target, average, score)


def roc_auc(scores: Tensor, target: Tensor) -> Metric:
    """The area under the receiver operating characteristic: the probability that a row of class 1 has a greater score
    than one of class 0. All scores are kept until the end."""

    def part(scores: Array, target: Array) -> Array:
        if scores.size != target.size or not np.isin(target, (0, 1)).all():
            raise DataError("train.roc_auc takes one score for each target, and targets 0 or 1")
        return np.stack([scores.reshape(-1).astype(np.float64), target.reshape(-1).astype(np.float64)])

    return Metric((scores, target), part, _area, lambda left, right: np.concatenate([left, right], axis=1))


def r2_score(prediction: Tensor, target: Tensor) -> Metric:
    """The coefficient of determination, the mean over outputs: 1 minus the squared error relative to that of the
    mean."""

    def part(prediction: Array, target: Array) -> Array:
        p, t = (a.reshape(len(a), -1).astype(np.float64) for a in (prediction, target))
        if p.shape != t.shape:
            raise DataError(f"train.r2_score: predictions have the sizes {prediction.shape}, targets {target.shape}")
        return np.stack([np.full(t.shape[1], len(t)), t.sum(0), (t * t).sum(0), ((t - p) ** 2).sum(0)])

    def result(state: Array) -> float:
        count, total, squares, errors = state
        return float(np.mean(1 - errors / (squares - total * total / count)))

    return Metric((prediction, target), part, result)


# ---------------------------------------------------------------------------------------------------------------------


def _ratio(state: Array) -> float:
    return float(state[0] / state[1])


def _divided(left: Array, right: Array) -> Array:
    return np.divide(left, right, out=np.zeros_like(left, np.float64), where=right > 0)


def _class_ids(logits: Array, target: Array) -> Array:
    """The class ids of a target. Raises: DataError if it is neither ids nor a distribution over the classes of
    logits."""
    if target.shape == logits.shape:
        return np.asarray(target.argmax(axis=-1))
    if target.shape != logits.shape[:-1] or target.dtype.kind not in "iub":
        raise DataError(
            f"logits with the sizes {logits.shape} need class ids with the sizes {logits.shape[:-1]}, or "
            f"distributions, not {target.dtype} with the sizes {target.shape}"
        )
    if target.size and not 0 <= target.min() <= target.max() < logits.shape[-1]:
        raise DataError(f"class ids are 0 to {logits.shape[-1] - 1}, not {target.min()} to {target.max()}")
    return target


def _confusion(logits: Array, target: Array) -> Array:
    classes = logits.shape[-1]
    pairs = _class_ids(logits, target).reshape(-1).astype(np.int64) * classes + logits.argmax(axis=-1).reshape(-1)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def _by_class(
    title: str, logits: Tensor, target: Tensor, average: str, score: Callable[[Array, Array, Array], Array]
) -> Metric:  # fmt: skip
    if average not in _AVERAGES:
        names = ", ".join(f'"{name}"' for name in _AVERAGES)
        raise ArgumentError(f"train.{title}: `average` is one of {names}, not {average!r}"[:200])
    return Metric((logits, target), _confusion, partial(_AVERAGES[average], score))


def _macro(score: Callable[..., Array], matrix: Array) -> float:
    hits, true, predicted = _counts(matrix)
    return float(np.mean(score(hits, true, predicted)[(true > 0) | (predicted > 0)]))


def _weighted(score: Callable[..., Array], matrix: Array) -> float:
    hits, true, predicted = _counts(matrix)
    return float(np.average(score(hits, true, predicted), weights=true))


def _micro(score: Callable[..., Array], matrix: Array) -> float:
    return float(score(*(np.array([counts.sum()]) for counts in _counts(matrix)))[0])


def _binary(score: Callable[..., Array], matrix: Array) -> float:
    if len(matrix) != 2:
        raise DataError(f"a binary average takes 2 classes, not {len(matrix)}")
    return float(score(*_counts(matrix))[1])


_AVERAGES: dict[str, Callable[..., float]] = {
    "macro": _macro, "micro": _micro, "weighted": _weighted, "binary": _binary
}  # fmt: skip


def _counts(matrix: Array) -> tuple[Array, Array, Array]:
    """By class: correct predictions, targets, and predictions."""
    return np.diag(matrix).astype(np.float64), matrix.sum(1).astype(np.float64), matrix.sum(0).astype(np.float64)


def _area(state: Array) -> float:
    """By the mean rank of the scores of class 1; equal scores have their mean rank."""
    scores, target = state
    positive = int(target.sum())
    negative = target.size - positive
    if not positive or not negative:
        raise DataError("the area under the curve needs rows of both classes")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[target == 1].sum() - positive * (positive + 1) / 2) / (positive * negative))

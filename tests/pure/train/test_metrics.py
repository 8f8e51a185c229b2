"""Metrics over batches, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

metrics = pytest.importorskip("sklearn.metrics")

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(50, 4)).astype(np.float32).round(1)
IDS = np.where(RNG.random(50) < 0.5, LOGITS.argmax(1), RNG.integers(0, 3, 50)).astype(np.int64)
PAIRS, BITS = LOGITS[:, :2], (IDS > 1).astype(np.int64)
VALUES = RNG.normal(size=(50, 3)).astype(np.float32)
TARGETS = (VALUES + RNG.normal(size=(50, 3)) / 2).astype(np.float32)

Case = tuple[Callable[[oc.Tensor, oc.Tensor], train.Metric], Any, Any, Any]
CASES: dict[str, Case] = {
    "accuracy": (train.accuracy, LOGITS, IDS, metrics.accuracy_score(IDS, LOGITS.argmax(1))),
    "accuracy of distributions": (
        train.accuracy, LOGITS, np.eye(4, dtype=np.float32)[IDS], metrics.accuracy_score(IDS, LOGITS.argmax(1))
    ),
    "top 2": (
        lambda x, t: train.top_k_accuracy(x, t, k=2), VALUES, IDS % 3,
        metrics.top_k_accuracy_score(IDS % 3, VALUES, k=2),
    ),
    "confusion": (train.confusion_matrix, LOGITS, IDS, metrics.confusion_matrix(IDS, LOGITS.argmax(1))),
    "auc": (train.roc_auc, LOGITS[:, 0], BITS, metrics.roc_auc_score(BITS, LOGITS[:, 0])),
    "r2": (train.r2_score, VALUES, TARGETS, metrics.r2_score(TARGETS, VALUES)),
    "average": (lambda x, t: train.average(x), VALUES, IDS, VALUES.mean()),
    "perplexity": (lambda x, t: train.perplexity(x), VALUES, IDS, np.exp(VALUES.mean())),
}  # fmt: skip
for name, ours in (("precision", train.precision), ("recall", train.recall), ("f1", train.f1_score)):
    theirs = getattr(metrics, f"{name}_score")
    for kind in ("macro", "micro", "weighted"):
        score = theirs(IDS, LOGITS.argmax(1), average=kind, zero_division=0)
        CASES[f"{kind} {name}"] = (lambda x, t, f=ours, k=kind: f(x, t, average=k), LOGITS, IDS, score)
    CASES[f"binary {name}"] = (
        lambda x, t, f=ours: f(x, t, average="binary"), PAIRS, BITS, theirs(BITS, PAIRS.argmax(1))
    )  # fmt: skip


@pytest.mark.parametrize("size", [50, 8])  # 8 pads the last of 7 batches
@pytest.mark.parametrize("name", CASES)
def test_metrics_of_batches(name: str, size: int) -> None:
    make, xs, ts, expected = CASES[name]
    data = train.batches({"x": xs, "t": ts}, size)
    x, t = data.placeholders
    with oc.Context("numpy") as ctx:
        value = train.evaluate(ctx, {"metric": make(x, t)}, data)["metric"]
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert data.position == {"epoch": 0, "batch": 0}


def test_metrics_of_expressions_and_symbols() -> None:
    n = oc.symbol("n", 0, 5)
    x = oc.tensor(LOGITS.reshape(5, 10, 4), batch_axes=2)[n]
    t = oc.tensor(IDS.reshape(5, 10), batch_axes=2)[n]
    with oc.Context("numpy") as ctx:
        both = {"accuracy": train.accuracy(2 * x, t), "loss": train.average(oc.cross_entropy(x, t))}
        value = train.evaluate(ctx, both, n)
    assert value["accuracy"] == pytest.approx(metrics.accuracy_score(IDS, LOGITS.argmax(1)))
    probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    assert value["loss"] == pytest.approx(metrics.log_loss(IDS, probabilities, labels=range(4)))


def data_of(xs: Any, ts: Any) -> tuple[Any, Any, train.Batches]:
    data = train.batches({"x": xs, "t": ts}, 5)
    return *data.placeholders, data


@pytest.mark.parametrize(
    ("xs", "ts", "make", "message"),
    [
        (LOGITS, IDS.astype(np.float32), train.accuracy, "need class ids"),
        (LOGITS, IDS + 4, train.recall, "class ids are 0 to 3"),
        (LOGITS, IDS, lambda x, t: train.f1_score(x, t, average="binary"), "2 classes, not 4"),
        (LOGITS[:, 0], IDS, train.roc_auc, "targets 0 or 1"),
        (LOGITS[:, 0], 0 * IDS, train.roc_auc, "rows of both classes"),
        (VALUES, TARGETS[:, 0], train.r2_score, "predictions have the sizes"),
    ],
)
def test_unfit_operands_are_refused(xs: Any, ts: Any, make: Any, message: str) -> None:
    x, t, data = data_of(xs, ts)
    with oc.Context("numpy") as ctx, pytest.raises(oc.DataError, match=message):
        train.evaluate(ctx, {"metric": make(x, t)}, data)


def test_unfit_settings_are_refused() -> None:
    x, t, data = data_of(LOGITS, IDS)
    with pytest.raises(oc.ArgumentError, match="`average` is one of"):
        train.precision(x, t, average="samples")  # type: ignore[arg-type]
    with pytest.raises(oc.ArgumentError, match="`k` is an integer"):
        train.top_k_accuracy(x, t, k=0)
    with oc.Context("numpy") as ctx, pytest.raises(oc.ArgumentError, match="`accuracy` is a metric"):
        train.evaluate(ctx, {"accuracy": 3}, data)  # type: ignore[dict-item]

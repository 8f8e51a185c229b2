"""Tables of numbers: a multilayer perceptron for each of three data sets that come with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl import nn, train
from ocannl.demos.report import Report, timing
from ocannl.lang.api import Tensor
from ocannl.lang.ops.functions import cross_entropy, squared_error
from ocannl.runtime.context import Context
from ocannl.train.metrics import Metric

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """A data set of scikit-learn, how a model of it is judged, and the score on rows that it was not trained on that
    every seed reaches."""

    loader: str
    outputs: int
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Callable[[Tensor, Tensor], Metric]
    required: float

    @property
    def is_classification(self) -> bool:
        return self.loss is cross_entropy


TABLES = {
    "wine": Table("load_wine", 3, cross_entropy, train.accuracy, 0.9),
    "breast-cancer": Table("load_breast_cancer", 2, cross_entropy, train.accuracy, 0.92),
    "diabetes": Table("load_diabetes", 1, squared_error, train.r2_score, 0.3),
}
TEST_SHARE = 5  # one row in so many is not trained on
BATCH, HIDDEN = 16, 32


@dataclass(frozen=True, slots=True)
class Samples:
    """Standardized inputs, and class ids or standardized targets."""

    inputs: Array
    target: Array


def load(table: Table, seed: int) -> tuple[Samples, Samples]:
    """The rows to train on and the rows to test with, shuffled by `seed`. Raises: ImportError without scikit-learn."""
    from sklearn import datasets

    inputs, target = getattr(datasets, table.loader)(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(target))
    test, rows = np.split(order, [len(order) // TEST_SHARE])
    inputs = _standardized(inputs, rows)
    target = target.astype("int32") if table.is_classification else _standardized(target[:, None], rows)
    return Samples(inputs[rows], target[rows]), Samples(inputs[test], target[test])


def _standardized(values: Array, rows: Array) -> Array:
    """Columns of mean 0 and variance 1 over `rows`."""
    standardized: Array = (values - values[rows].mean(0)) / values[rows].std(0)
    return standardized.astype("float32")


def run(name: str, ctx: Context, *, epochs: int, seed: int) -> Report:
    table = TABLES[name]
    rows, test = load(table, seed)
    data = train.batches({"x": rows.inputs, "target": rows.target}, BATCH, shuffle=seed)
    model = nn.mlp(widths=[HIDDEN, table.outputs], rate=0.2, label=name.replace("-", "_"))
    fitted = train.fit(
        model, loss=table.loss, optimizer=_optimizer, data=data, ctx=ctx, epochs=epochs, show=False
    )
    metric = table.metric.__name__
    held_out = data.of({"x": test.inputs, "target": test.target})
    score = train.evaluate(ctx, {metric: table.metric(model(data["x"]), data["target"])}, held_out)[metric]
    cells = sum(prod(p.dims) for p in model.params.values())
    network = f"{'-'.join(map(str, (rows.inputs.shape[1], HIDDEN, table.outputs)))}, {cells} parameters"
    lines = {
        "network": f"{network}, {len(fitted.losses)} steps of {BATCH} rows",
        f"test {metric.replace('_', ' ')}": f"{score:.4f} on {len(test.target)} rows",
    }
    return Report(score, table.required, lines | timing(fitted))


def _optimizer(loss: Tensor) -> Any:
    return train.adamw(loss, 3e-3, weight_decay=0.1)

"""Metrics over batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ocannl.base.errors import ArgumentError, DataError
from ocannl.lang.core.graph import forward
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.context import Context
from ocannl.train.batches import Batch, Batches
from ocannl.train.feed import Feed, bind_feed
from ocannl.train.metrics import Metric


class Evaluation:
    """A compiled computation of metrics over batches. A call runs over all of them."""

    def __init__(self, ctx: Context, metrics: Mapping[str, Metric], batches: Symbol | Iterable[Feed]) -> None:
        for name, metric in metrics.items():
            if not isinstance(metric, Metric):
                problem = f"`{name}` is a metric such as train.accuracy(logits, target), not {metric!r}"
                raise ArgumentError(problem[:200])
        self._ctx, self._metrics, self._batches = ctx, metrics, batches
        operands = dict.fromkeys(t for metric in metrics.values() for t in metric.operands)
        computed = [t for t in operands if t.application is not None]
        self._routine = ctx.compile(forward(*computed), "metrics", keep=computed) if computed else None

    def __call__(self) -> dict[str, Any]:
        states: dict[str, Any] = dict.fromkeys(self._metrics)
        for batch in _all_batches(self._batches):
            symbols = bind_feed(self._ctx, batch.feed)
            if self._routine is not None:
                self._routine(**symbols)
            for name, metric in self._metrics.items():
                arrays = [_valid_rows(self._ctx, t, batch.rows) for t in metric.operands]
                states[name] = metric.add(states[name], *arrays)
        if any(state is None for state in states.values()):
            raise DataError("there are no batches to compute metrics of")
        return {name: metric.result(states[name]) for name, metric in self._metrics.items()}


def evaluate(ctx: Context, metrics: Mapping[str, Metric], batches: Symbol | Iterable[Feed]) -> dict[str, Any]:
    """Metrics over batches, by name: `train.evaluate(ctx, {"accuracy": train.accuracy(logits, t)}, data)`.

    `batches` are those of `train.fit`. Rows that pad a batch do not count.
    """
    return Evaluation(ctx, metrics, batches)()


def _all_batches(batches: Symbol | Iterable[Feed]) -> Iterator[Batch]:
    if isinstance(batches, Symbol):
        return (Batch({batches: n}, -1) for n in range(batches.lo, batches.hi + 1))
    if isinstance(batches, Batches):
        return batches.rewound()
    return (Batch(feed, -1) for feed in batches)


def _valid_rows(ctx: Context, tensor: Tensor, rows: int) -> Any:
    array = ctx[tensor]
    return array[:rows] if rows >= 0 and array.ndim and len(tensor.shape.batch) else array

"""What a run trains: a loss in a context, or one that is built from a model, a loss function and batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import ArgumentError
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.context import Context, default_context
from ocannl.train.batches import Batches, weighted_mean
from ocannl.train.metrics import Metric

LossFunction = Callable[..., Tensor]
"""A function of the result of a model, and of the target if there is one."""
MetricFunction = Callable[..., Metric]
"""A function of the same arguments, such as `train.accuracy`."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss, the context that computes it, and the metrics of its model; `output` is what the model makes of a batch,
    None for a loss that was given as an expression."""

    ctx: Context
    loss: Tensor
    metrics: Mapping[str, Metric]
    output: Tensor | None = None


def objective_of(
    model: object, loss: object, data: object, metrics: Mapping[str, Any], ctx: Context | None
) -> Objective:
    """The objective of the arguments of `train.fit`."""
    if isinstance(model, Context) and isinstance(loss, Tensor):
        if ctx is not None:
            raise ArgumentError("train.fit takes one context: the first argument, or `ctx=` for a model")
        return Objective(model, loss, metrics)
    if not callable(model) or not callable(loss) or isinstance(loss, Tensor):
        raise ArgumentError(
            "train.fit takes a context and a loss, fit(ctx, loss, ...), or a model and a loss function, "
            f"fit(model, loss=oc.cross_entropy, ...), not {model!r:.80} and {loss!r:.80}"
        )
    if not isinstance(data, Batches) or not data.placeholders:
        raise ArgumentError("the data of a model are `train.batches(...)` with placeholders: inputs, and last a target")
    if ctx is not None and not isinstance(ctx, Context):
        raise ArgumentError(f"`ctx` of train.fit is a context, not {ctx!r}"[:200])
    inputs, targets = _inputs_and_targets(data)
    output = model(*inputs)
    losses = loss(output, *targets)
    if not isinstance(losses, Tensor):
        raise ArgumentError(f"the loss function returns a tensor, not {losses!r}"[:200])
    measured = {name: m(output, *targets) if callable(m) else m for name, m in metrics.items()}
    return Objective(default_context() if ctx is None else ctx, _mean(losses, data.weight), measured, output)


def _inputs_and_targets(data: Batches) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The operands of the model, and those of the loss function beside its result: the last column, if there are
    several."""
    columns = data.placeholders
    return (columns, ()) if len(columns) == 1 else (columns[:-1], columns[-1:])


def _mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of losses, weighted if they have an axis of rows."""
    if not losses.shape.batch:
        return losses if not losses.dims else losses.mean()
    return losses.mean() if weight is None else weighted_mean(losses, weight)

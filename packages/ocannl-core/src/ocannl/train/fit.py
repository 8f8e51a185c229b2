"""The training loop: runs a compiled step over all batches of all epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, overload

import numpy as np

from ocannl import show as pictures
from ocannl.base import html_text, training_names
from ocannl.base.errors import CodeError
from ocannl.base.spelling import with_answers
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, seq
from ocannl.runtime.context import Context
from ocannl.runtime.routine import Routine
from ocannl.train.batches import Batches
from ocannl.train.callbacks import Callback, EpochResult
from ocannl.train.checkpoints import Checkpoints, Progress, TrainingState
from ocannl.train.evaluation import Evaluation
from ocannl.train.feed import Feed, bind_feed
from ocannl.train.loop import TrainingLoop
from ocannl.train.loss_history import LossHistory
from ocannl.train.metrics import Metric
from ocannl.train.objective import LossFunction, MetricFunction, objective_of
from ocannl.train.progress import progress
from ocannl.train.scale import LossScale
from ocannl.train.step import grad_update

Metrics = Mapping[str, Any]
"""Metrics of a model, by name."""
Optimizer = Code | Callable[[Tensor], Code]

@with_answers(training_names.FITTED)
@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished training run: the loss of each step, the metrics after each epoch, and the routine of a step."""

    losses: Sequence[float]
    watched: Sequence[Metrics]
    step: Routine
    compile_seconds: float
    step_seconds: float
    """Mean time of one step, including reading its batch and its loss."""
    ctx: Context
    loss: Tensor
    output: Tensor | None = None
    """What the model makes of a batch, if a model was given."""

    def __repr__(self) -> str:
        metrics = "".join(
            f", {name} {value:g}" for name, value in (self.watched[-1] if self.watched else {}).items()
            if not np.ndim(value)
        )  # fmt: skip
        loss = f"loss {self.losses[0]:g} to {self.losses[-1]:g}{metrics}" if self.losses else "complete before"
        return f"<fitted: {len(self.losses)} steps of {self.step_seconds * 1e3:.3g} ms, {loss}>"

    def _repr_html_(self) -> str:
        """The loss curve, and a table of the metrics."""
        names = list(self.watched[-1]) if self.watched else []
        rows = [
            (str(epoch), *(f"{metrics[name]:.4g}" if not np.ndim(metrics[name]) else "..." for name in names))
            for epoch, metrics in enumerate(self.watched, 1)
        ]
        metrics_table = html_text.table(("epoch", *names), rows) if names else ""
        return html_text.title(repr(self)) + html_text.curve(self.losses, "loss") + metrics_table

    def checkpoint_parts(self) -> Routine:
        """What `oc.save` and `oc.load` save and load: all that the routine changes."""
        return self.step

    def plot(self, path: str | PathLike[str]) -> Path:
        """Draws the losses and the metrics to a file, in the format of its extension."""
        names = [name for name, value in (self.watched[-1] if self.watched else {}).items() if not np.ndim(value)]
        figure = pictures.page(4 * (1 + len(names)), 3)
        axes = figure.subplots(1, 1 + len(names), squeeze=False)[0]
        pictures.learning(axes[0], self.losses, max(1, len(self.losses) // max(1, len(self.watched))))
        for ax, name in zip(axes[1:], names, strict=True):
            pictures.curve(ax, [metrics[name] for metrics in self.watched], name)
        return pictures.save(figure, Path(path))


@overload
def fit(
    ctx: Context, loss: Tensor, optimizer: Optimizer, data: Symbol | Iterable[Feed], /, *, epochs: int = ...,
    shuffle: int | None = ..., scale: LossScale | float | None = ..., validation: Symbol | Iterable[Feed] | None = ...,
    metrics: Mapping[str, Metric] | None = ..., watch: Callable[[], Metrics] | None = ...,
    callbacks: Iterable[Callback] = ..., checkpoint: Checkpoints | str | PathLike[str] | None = ...,
    show: bool | None = ...,
) -> Fitted: ...  # fmt: skip
@overload
def fit(
    model: Callable[..., Any], loss: LossFunction, optimizer: Callable[[Tensor], Code], data: Batches, *,
    ctx: Context | None = ..., epochs: int = ..., scale: LossScale | float | None = ...,
    validation: Batches | None = ..., metrics: Mapping[str, MetricFunction | Metric] | None = ...,
    watch: Callable[[], Metrics] | None = ..., callbacks: Iterable[Callback] = ...,
    checkpoint: Checkpoints | str | PathLike[str] | None = ..., show: bool | None = ...,
) -> Fitted: ...  # fmt: skip
def fit(
    model: Any,
    loss: Any,
    optimizer: Optimizer,
    data: Any,
    *,
    ctx: Context | None = None,
    epochs: int = 1,
    shuffle: int | None = None,
    scale: LossScale | float | None = None,
    validation: Any = None,
    metrics: Mapping[str, Any] | None = None,
    watch: Callable[[], Metrics] | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoints | str | PathLike[str] | None = None,
    show: bool | None = None,
) -> Fitted:
    """Trains a model: initializes parameters without a value, then runs gradients and an optimizer once for each batch.

        data = train.batches({"images": images, "labels": labels}, 50, shuffle=0)
        fitted = train.fit(model, loss=oc.cross_entropy, optimizer=train.adam, data=data, epochs=20)

    `model` is a block, or another function of tensors, and `loss` a function of its result and a target, whose result
    has a loss for each row, or is a mean. The target is the last column of `data`, a `train.batches(...)`; the model is
    applied to the others. Losses of rows are averaged with the weights of the batches. The context is `ctx`, by default
    that of `oc.default_context()`.

    For a loss that is an expression, the first argument is the context that computes it:

        n = oc.symbol("n", 0, 26)
        ...  # a loss that depends on data[n]
        fitted = train.fit(ctx, loss, train.sgd(loss, 0.1, momentum=0.9), n, epochs=40, shuffle=0)

    `data` is then a static symbol, whose values enumerate the batches of an epoch, a `train.batches(...)`, or an
    iterable with a mapping for each step, from placeholders to arrays and from symbols to integers:
    `[{x: xs, t: ts}, ...]`. `shuffle` is the seed of a new random order of symbols or lists in each epoch; None keeps
    the order.

    `optimizer` is a function from the loss to code, such as `train.adam` or `lambda loss: train.sgd(loss, 0.1)`; for a
    loss that is an expression, it may be code. `scale` is a loss scale for gradients of narrow types, a number or an
    adaptive `LossScale`.

    After each epoch, `metrics` are computed over the batches of `validation`, or over those of training without it.
    They are such as `{"accuracy": train.accuracy(logits, t)}`; for a model, functions of its result and the target,
    such as `{"accuracy": train.accuracy}`. `watch` is called and returns more metrics, such as `{"accuracy": 0.97}`;
    and `callbacks` are called with a `train.EpochResult`. Training ends early when a callback returns True.

    With `checkpoint`, a path or `train.Checkpoints`, the state of the training is saved after each epoch. If the file
    exists, the run continues from there, as if it had not been interrupted; losses are those of the steps since then.

    On a terminal a progress bar is shown if `rich` is installed (extra `cli`), in a notebook one line;
    `show` forces or suppresses it.

    Raises: CodeError for fewer than 1 epoch, for an iterator and several epochs, or for no batches; DataError, with the
            number of the step, when the loss is NaN. NaN is noticed within 1024 steps.
    """
    _check_arguments(data, epochs, shuffle)
    objective = objective_of(model, loss, data, metrics or {}, ctx)
    ctx, loss = objective.ctx, objective.loss
    _check_weight(loss, data)
    ctx.init(loss)
    started = perf_counter()
    update = optimizer if isinstance(optimizer, Code) else optimizer(loss)
    scaled = scale.step(loss, update) if isinstance(scale, LossScale) else seq(grad_update(loss, scale=scale), update)
    history = LossHistory(loss)
    step = ctx.compile(seq(scaled, history.code), keep=[loss])
    compile_seconds = perf_counter() - started
    measured = data if validation is None else validation
    evaluation = Evaluation(ctx, objective.metrics, measured) if objective.metrics else None

    watched: list[Metrics] = []
    observers = list(callbacks)
    is_observed = evaluation is not None or watch is not None or bool(observers)
    order = None if shuffle is None else np.random.default_rng(shuffle)
    state, start = None, Progress()
    if checkpoint is not None:
        checkpoints = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint)
        state = TrainingState(checkpoints, ctx, step, observers, data)
        start = state.resumed()
    with ExitStack() as stack:
        report = stack.enter_context(progress(epochs, _steps_per_epoch(data), show))
        for observer in observers:
            stack.callback(getattr(observer, "close", lambda: None))
        loop = TrainingLoop(ctx, loss, step, history, report, state, start)
        for epoch in range(epochs):
            current = _epoch_batches(ctx, data, order, start.batch if epoch == start.epoch else 0)
            if epoch < start.epoch:
                continue
            loop.run(current, epoch, watched[-1] if watched else {})
            if not is_observed:
                loop.save(epoch + 1)
                continue
            loop.read(watched[-1] if watched else {})
            values = {**(evaluation() if evaluation else {}), **(watch() if watch else {})}
            if evaluation is not None or watch is not None:
                watched.append(values)
                report(len(loop.losses), {**({"loss": loop.losses[-1]} if loop.losses else {}), **values})
            result = EpochResult(ctx, epoch, tuple(loop.epoch_losses(epoch)), values, step, data)
            answers = [observer(result) for observer in observers]
            loop.save(epoch + 1)
            if any(answer is True for answer in answers):
                break
        loop.read(watched[-1] if watched else {})
    if state is not None:
        state.wait()
    if not loop.losses and not start.steps:
        raise CodeError("there are no batches to train on")
    step_seconds = loop.seconds / max(1, len(loop.losses))
    return Fitted(loop.losses, watched, step, compile_seconds, step_seconds, ctx, loss, objective.output)


def _check_arguments(batches: object, epochs: object, shuffle: int | None) -> None:
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise CodeError(f"the number of epochs must be an integer of at least 1, not {epochs!r}")
    if isinstance(shuffle, bool):
        raise CodeError("train.fit: `shuffle` is a seed, as in shuffle=0; None keeps the order of batches")
    if isinstance(batches, Symbol):
        return
    if not isinstance(batches, Iterable):
        raise CodeError(f"batches must be a static symbol, or one mapping for each step, not {batches!r}")
    if isinstance(batches, Iterator) and epochs > 1:
        raise CodeError("an iterator of batches can be used for one epoch only; pass a list for several epochs")
    if shuffle is not None and not isinstance(batches, Sequence):
        raise CodeError("only a symbol or a list of batches can be shuffled")


def _check_weight(loss: Tensor, batches: object) -> None:
    """Raises: CodeError if rows that pad the last batch would count."""
    if isinstance(batches, Batches) and batches.pads and all(t is not batches.weight for t in loss.inputs()):
        raise CodeError(
            f"the last batch is padded with rows of weight 0, but `{loss.label}` does not depend on the weights"
            "\n  fix  write loss = train.weighted_mean(losses, data.weight), or train.batches(..., partial=\"drop\")"
        )


def _steps_per_epoch(batches: Symbol | Iterable[Feed]) -> int | None:
    """The number of steps in an epoch, if known."""
    if isinstance(batches, Symbol):
        return batches.hi - batches.lo + 1
    try:
        return len(batches) if isinstance(batches, Sized) else None
    except TypeError:  # of a stream
        return None


def _epoch_batches(
    ctx: Context, batches: Symbol | Iterable[Feed], order: np.random.Generator | None, first: int
) -> Iterable[Mapping[str, int]]:
    """Sets the placeholders of each batch from number `first` on, and yields its symbols."""
    if isinstance(batches, Symbol):
        symbols = [{batches.name: value} for value in range(batches.lo, batches.hi + 1)]
        return (symbols if order is None else [symbols[i] for i in order.permutation(len(symbols)).tolist()])[first:]
    if order is not None:
        assert isinstance(batches, Sequence)
        batches = [batches[i] for i in order.permutation(len(batches))]
    if not isinstance(batches, Batches):  # these continue at their position
        batches = islice(batches, first, None)
    return (bind_feed(ctx, feed) for feed in batches)

"""The training loop: runs a compiled step over all batches of all epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ocannl.base.errors import CodeError, DataError
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, seq
from ocannl.runtime.context import Context
from ocannl.runtime.routine import Routine
from ocannl.train.feed import Feed, bind_feed
from ocannl.train.progress import progress
from ocannl.train.scale import LossScale
from ocannl.train.step import grad_update

Metrics = Mapping[str, float]
"""Metrics of a model, by name."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished training run: the loss of each step, the metrics after each epoch, and the routine of a step."""

    losses: Sequence[float]
    watched: Sequence[Metrics]
    step: Routine
    compile_seconds: float
    step_seconds: float
    """Mean time of one call of the routine, including reading the loss."""

    def __repr__(self) -> str:
        metrics = "".join(f", {name} {value:g}" for name, value in (self.watched[-1] if self.watched else {}).items())
        loss = f"loss {self.losses[0]:g} to {self.losses[-1]:g}{metrics}"
        return f"<fitted: {len(self.losses)} steps of {self.step_seconds * 1e3:.3g} ms, {loss}>"


def fit(
    ctx: Context,
    loss: Tensor,
    update: Code,
    batches: Symbol | Iterable[Feed],
    *,
    epochs: int = 1,
    shuffle: int | None = None,
    scale: LossScale | float | None = None,
    watch: Callable[[], Metrics] | None = None,
    show: bool | None = None,
) -> Fitted:
    """Trains a model: initializes parameters without a value, then runs gradients and `update` once for each batch.

        n = oc.symbol("n", 0, 26)
        ...  # a loss that depends on data[n]
        fitted = train.fit(ctx, loss, train.sgd(loss, 0.1, momentum=0.9), n, epochs=40, shuffle=0)

    `batches` is a static symbol, whose values enumerate the batches of an epoch, or an iterable with a mapping for each
    step, from placeholders to arrays and from symbols to integers: `[{x: xs, t: ts}, ...]`. `shuffle` is the seed of a
    new random order in each epoch; None keeps the order. `scale` is a loss scale for gradients of narrow types, a
    number or an adaptive `LossScale`. `watch` is called after each epoch and returns metrics such as
    `{"accuracy": 0.97}`, which are shown and recorded. On a terminal a progress bar is shown if `rich` is installed
    (extra `cli`); `show` forces or suppresses it.

    Raises: CodeError for fewer than 1 epoch, for an iterator and several epochs, or for no batches; DataError, with the
            number of the step, when the loss is NaN.
    """
    _check_arguments(batches, epochs, shuffle)
    ctx.init(loss)
    started = perf_counter()
    scaled = scale.step(loss, update) if isinstance(scale, LossScale) else seq(grad_update(loss, scale=scale), update)
    step = ctx.compile(scaled)
    compile_seconds = perf_counter() - started

    losses: list[float] = []
    watched: list[Metrics] = []
    seconds = 0.0
    order = None if shuffle is None else np.random.default_rng(shuffle)
    with progress(epochs, _steps_per_epoch(batches), show) as report:
        for _ in range(epochs):
            for feed in _epoch_batches(batches, order):
                symbols = bind_feed(ctx, feed)
                started = perf_counter()
                step(**symbols)
                losses.append(float(ctx[loss].sum()))
                _check_loss(losses, loss.label)
                seconds += perf_counter() - started
                report(len(losses), {"loss": losses[-1], **(watched[-1] if watched else {})})
            if watch is not None:
                watched.append(dict(watch()))
                report(len(losses), {**({"loss": losses[-1]} if losses else {}), **watched[-1]})
    if not losses:
        raise CodeError("there are no batches to train on")
    return Fitted(losses, watched, step, compile_seconds, seconds / len(losses))


def _check_loss(losses: Sequence[float], label: str) -> None:
    """Raises DataError if the last loss is NaN."""
    if losses[-1] == losses[-1]:
        return
    before = f", after {losses[-2]:g} in the step before" if len(losses) > 1 else ""
    raise DataError(
        f"the loss `{label}` is NaN in step {len(losses)}{before}"
        "\n  fix  with oc.settings(check_numbers=True): around the training names the node where NaN begins"
    )


def _check_arguments(batches: object, epochs: object, shuffle: int | None) -> None:
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise CodeError(f"the number of epochs must be an integer of at least 1, not {epochs!r}")
    if isinstance(batches, Symbol):
        return
    if not isinstance(batches, Iterable):
        raise CodeError(f"batches must be a static symbol, or one mapping for each step, not {batches!r}")
    if isinstance(batches, Iterator) and epochs > 1:
        raise CodeError("an iterator of batches can be used for one epoch only; pass a list for several epochs")
    if shuffle is not None and not isinstance(batches, Sequence):
        raise CodeError("only a symbol or a list of batches can be shuffled")


def _steps_per_epoch(batches: Symbol | Iterable[Feed]) -> int | None:
    """The number of steps in an epoch, if known."""
    if isinstance(batches, Symbol):
        return batches.hi - batches.lo + 1
    return len(batches) if isinstance(batches, Sized) else None


def _epoch_batches(batches: Symbol | Iterable[Feed], order: np.random.Generator | None) -> Iterable[Feed]:
    if isinstance(batches, Symbol):
        batches = [{batches: value} for value in range(batches.lo, batches.hi + 1)]
    if order is None:
        return batches
    assert isinstance(batches, Sequence)
    return [batches[i] for i in order.permutation(len(batches))]

"""The loop: a compiled step over all batches, epoch after epoch, and what it has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, seq
from ocannl.runtime.context import Context
from ocannl.runtime.routine import Routine
from ocannl.train.feed import Feed, given
from ocannl.train.progress import progress
from ocannl.train.scale import LossScale
from ocannl.train.step import grad_update

Figures = Mapping[str, float]
"""What is told about a model, by name."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished training run: the loss of every step, what `watch` said after every epoch, the routine of a step."""

    losses: Sequence[float]
    watched: Sequence[Figures]
    step: Routine
    compile_seconds: float
    step_seconds: float
    """One call of the routine and reading its loss, on average."""


def fit(
    ctx: Context,
    loss: Tensor,
    update: Code,
    batches: Symbol | Iterable[Feed],
    *,
    epochs: int = 1,
    shuffle: int | None = None,
    scale: LossScale | float | None = None,
    watch: Callable[[], Figures] | None = None,
    show: bool | None = None,
) -> Fitted:
    """Trains: initializes the parameters that have no value yet, then runs gradients and `update` once for each batch.

        n = oc.symbol("n", 0, 26)
        ...  # a loss that depends on data[n]
        fitted = train.fit(ctx, loss, train.sgd(loss, 0.1, momentum=0.9), n, epochs=40, shuffle=0)

    `batches` is a static symbol, all of whose values make an epoch, or one mapping for each step, from placeholders to
    arrays and from symbols to integers: `[{x: xs, t: ts}, ...]`. `shuffle` is the seed of a random order, another one
    in each epoch; None keeps theirs. `scale` is a factor for gradients of narrow types, a number or one that adapts.
    `watch` is called after each epoch and gives figures, such as `{"accuracy": 0.97}`, to be shown and kept. Somebody
    at a terminal sees a progress bar if `rich` is installed (extra `cli`); `show` forces or forbids it.

    Raises: CodeError for a number of epochs below 1, batches that cannot be walked as often as that, or no batches.
    """
    _check(batches, epochs, shuffle)
    ctx.init(loss)
    started = perf_counter()
    scaled = scale.step(loss, update) if isinstance(scale, LossScale) else seq(grad_update(loss, scale=scale), update)
    step = ctx.compile(scaled)
    compile_seconds = perf_counter() - started

    losses: list[float] = []
    watched: list[Figures] = []
    seconds = 0.0
    order = None if shuffle is None else np.random.default_rng(shuffle)
    with progress(epochs, _size(batches), show) as tell:
        for _ in range(epochs):
            for feed in _epoch(batches, order):
                symbols = given(ctx, feed)
                started = perf_counter()
                step(**symbols)
                losses.append(float(ctx[loss].sum()))
                seconds += perf_counter() - started
                tell(len(losses), {"loss": losses[-1], **(watched[-1] if watched else {})})
            if watch is not None:
                watched.append(dict(watch()))
                tell(len(losses), {**({"loss": losses[-1]} if losses else {}), **watched[-1]})
    if not losses:
        raise CodeError("there are no batches to train on")
    return Fitted(losses, watched, step, compile_seconds, seconds / len(losses))


def _check(batches: object, epochs: object, shuffle: int | None) -> None:
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise CodeError(f"the number of epochs is an integer of at least 1, not {epochs!r}")
    if isinstance(batches, Symbol):
        return
    if not isinstance(batches, Iterable):
        raise CodeError(f"batches are a static symbol, or one mapping for each step, not {batches!r}")
    if isinstance(batches, Iterator) and epochs > 1:
        raise CodeError("these batches can be walked once, and there are more epochs than that; give a list of them")
    if shuffle is not None and not isinstance(batches, Sequence):
        raise CodeError("only a symbol or a list of batches can be shuffled")


def _size(batches: Symbol | Iterable[Feed]) -> int | None:
    """The number of steps in an epoch, if that is known."""
    if isinstance(batches, Symbol):
        return batches.hi - batches.lo + 1
    return len(batches) if isinstance(batches, Sized) else None


def _epoch(batches: Symbol | Iterable[Feed], order: np.random.Generator | None) -> Iterable[Feed]:
    if isinstance(batches, Symbol):
        batches = [{batches: value} for value in range(batches.lo, batches.hi + 1)]
    if order is None:
        return batches
    assert isinstance(batches, Sequence)
    return [batches[at] for at in order.permutation(len(batches))]

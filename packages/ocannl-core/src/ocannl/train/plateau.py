"""A learning rate that falls when a metric stops improving."""

from __future__ import annotations

from math import inf
from typing import Literal

from ocannl.base import training_names
from ocannl.base.errors import ArgumentError
from ocannl.base.spelling import with_answers
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import float64
from ocannl.lang.core.leaf_constructors import node
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.context import Context
from ocannl.train.callbacks import EpochResult


@with_answers(training_names.PLATEAU)
@public_class()
class ReduceOnPlateau:
    """A learning rate that is multiplied by `factor` when a metric has not improved for more than `patience` calls.

        plateau = train.ReduceOnPlateau(0.1, "loss", patience=3)
        train.fit(ctx, loss, train.sgd(loss, plateau.rate), data, callbacks=[plateau], ...)

    It is a callback of `train.fit`; `plateau.step(ctx, value)` takes a value of the metric into account elsewhere.

    A metric improves if it is less than the best one by the fraction `threshold` of it, or greater if `mode` is "max".
    The `cooldown` calls after a change do not count. The rate does not fall below `min_rate`. All state is in nodes of
    the context, so that checkpoints hold it.

    Source: `ReduceLROnPlateau` of PyTorch.
    """

    def __init__(
        self, rate: float, metric: str = "train_loss", *, factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, cooldown: int = 0, min_rate: float = 0.0, mode: Literal["min", "max"] = "min",
    ) -> None:  # fmt: skip
        if mode not in ("min", "max") or not (0 < factor < 1 and patience >= 0 and cooldown >= 0 and threshold >= 0):
            raise ArgumentError(
                "train.ReduceOnPlateau requires 0 < factor < 1, patience, cooldown and threshold of at least 0, and "
                f'the mode "min" or "max"; not {factor=}, {patience=}, {cooldown=}, {threshold=}, {mode=}'
            )
        self._sign = 1.0 if mode == "min" else -1.0
        self.metric, self.factor, self.patience, self.threshold = metric, factor, patience, threshold
        self.cooldown, self.min_rate = cooldown, min_rate
        self.rate, self._best, self._waited, self._cooling = (
            node(f"plateau_{name}", init=init, dtype=float64, batch=[], input=[], output=[])
            for name, init in (("rate", rate), ("best", inf), ("waited", 0.0), ("cooling", 0.0))
        )

    def checkpoint_parts(self) -> dict[str, Tensor]:
        """The nodes that a checkpoint holds, by name."""
        return {t.label: t for t in (self.rate, self._best, self._waited, self._cooling)}

    def __call__(self, result: EpochResult) -> None:
        self.step(result.ctx, result.number(self.metric))

    def step(self, ctx: Context, metric: float) -> float:
        """Takes a new value of the metric into account, and returns the rate."""
        rate, best, waited, cooling = (float(ctx[state]) for state in self.checkpoint_parts().values())
        value = self._sign * metric
        if value < best - self.threshold * abs(best) or best == inf > value:
            best, waited = value, 0.0
        else:
            waited += 1
        if cooling:
            cooling, waited = cooling - 1, 0.0
        if waited > self.patience:
            rate, waited, cooling = max(rate * self.factor, self.min_rate), 0.0, self.cooldown
        for state, number in zip(self.checkpoint_parts().values(), (rate, best, waited, cooling), strict=True):
            ctx[state] = number
        return rate

"""The loop over the steps of an epoch, and the losses that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from math import isnan
from time import perf_counter
from typing import Any

from ocannl.base.errors import DataError
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.context import Context
from ocannl.runtime.routine import Routine
from ocannl.train.checkpoints import Progress, TrainingState
from ocannl.train.loss_history import CAPACITY, LossHistory
from ocannl.train.progress import ReportProgress

_READ_SECONDS = 0.02  # between readings of losses: a step may be much shorter


class TrainingLoop:
    """Runs steps, and reads their losses from time to time."""

    def __init__(
        self, ctx: Context, loss: Tensor, step: Routine, history: LossHistory, report: ReportProgress,
        state: TrainingState | None, start: Progress,
    ) -> None:  # fmt: skip
        self.state, self.start = state, start
        self.ctx, self.step, self.history, self.report, self.label = ctx, step, history, report, loss.label
        self.losses: list[float] = []
        self.pending = 0  # steps whose losses are not read
        self.seconds = 0.0
        self._last_read = perf_counter()
        self._chunk = 1  # steps between looks at the clock
        self._first = 0  # index of the first loss of the epoch

    def run(self, batches: Iterable[Mapping[str, int]], epoch: int, metrics: Mapping[str, Any]) -> None:
        """Runs a step for each batch of an epoch."""
        iterator = iter(batches)
        batch = self.start.batch if epoch == self.start.epoch else 0
        self._first = len(self.losses) + self.pending
        step = self.step
        is_complete = False
        while not is_complete:
            count, started = min(self._chunk, CAPACITY - self.pending, self._until_save()), perf_counter()
            done = 0
            for done, symbols in enumerate(islice(iterator, count), 1):  # noqa: B007, counted in fewer instructions
                step(**symbols)
            now = perf_counter()
            self.seconds += now - started
            self.pending += done
            batch += done
            is_complete = done < count
            self._chunk = max(1, min(2 * self._chunk, int(_READ_SECONDS * done / (now - started))))
            if self.pending == CAPACITY or now - self._last_read > _READ_SECONDS:
                self.read(metrics)
            if done and self.state is not None and self.state.every and self.steps % self.state.every == 0:
                self.save(epoch, batch)

    @property
    def steps(self) -> int:
        """All steps, with those before the run was continued."""
        return self.start.steps + len(self.losses) + self.pending

    def epoch_losses(self, epoch: int) -> list[float]:
        """The losses of an epoch so far, with those before the run was continued."""
        before = self.start.losses if epoch == self.start.epoch else ()
        return [*before, *self.losses[self._first :]]

    def _until_save(self) -> int:
        """The number of steps to the next checkpoint."""
        every = None if self.state is None else self.state.every
        return CAPACITY if every is None else every - self.steps % every

    def save(self, epoch: int, batch: int = 0) -> None:
        """Saves a checkpoint, of a model without NaN."""
        if self.state is not None:
            self.read({})
            self.state.save(Progress(epoch, batch, self.steps, self.epoch_losses(epoch) if batch else ()))

    def read(self, metrics: Mapping[str, Any]) -> None:
        """Reads the losses of steps since the last reading. Raises: DataError if one is NaN."""
        started = perf_counter()
        if self.pending:
            losses = self.history.last(self.ctx, self.pending)
            first = len(self.losses)
            self.losses += losses
            if any(map(isnan, losses)):
                self._refuse_nan(first + next(n for n, loss in enumerate(losses) if isnan(loss)))
            self.pending = 0
            self.report(len(self.losses), {"loss": self.losses[-1], **metrics})
        self._last_read = perf_counter()
        self.seconds += self._last_read - started

    def _refuse_nan(self, number: int) -> None:
        before = f", after {self.losses[number - 1]:g} in the step before" if number else ""
        raise DataError(
            f"the loss `{self.label}` is NaN in step {number + 1}{before}"
            "\n  fix  with oc.settings(check_numbers=True): around the training names the node where NaN begins"
        )

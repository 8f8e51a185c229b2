"""Callbacks of the training loop: what happens after each epoch."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.core.tensor import Tensor
from ocannl.runtime.context import Context
from ocannl.runtime.routine import Routine


@public_class()
@dataclass(frozen=True, slots=True)
class EpochResult:
    """What callbacks receive after an epoch: its number from 0, the losses of its steps, and the metrics after it."""

    ctx: Context
    epoch: int
    losses: Sequence[float]
    metrics: Mapping[str, Any]
    step: Routine
    batches: object

    @property
    def numbers(self) -> dict[str, float]:
        """The mean loss of the epoch as `train_loss`, and those metrics that are numbers."""
        mean = {"train_loss": float(np.mean(self.losses))} if self.losses else {}
        return {**mean, **{name: float(value) for name, value in self.metrics.items() if not np.ndim(value)}}

    def number(self, name: str) -> float:
        """Raises: CodeError if there is no such metric."""
        numbers = self.numbers
        if name not in numbers:
            raise CodeError(f"there is no metric {name!r}; the metrics are {', '.join(numbers)}")
        return numbers[name]


Callback = Callable[[EpochResult], object]
"""Called after each epoch; ends the training by returning True. Its method `close`, if any, is called at the end."""


@public_class()
class EarlyStopping:
    """Ends the training when a metric has not improved for `patience` epochs.

    A metric improves if it is less than the best one by more than `min_delta`, or greater if `mode` is "max". With
    `restore`, such as `loss` or a block, its parameters get the values of the best epoch at the end. `best` is the best
    metric, and `best_epoch` its epoch.
    """

    def __init__(
        self, metric: str = "train_loss", *, patience: int = 5, min_delta: float = 0.0,
        mode: Literal["min", "max"] = "min", restore: Any = None,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max") or patience < 0 or min_delta < 0:
            raise ArgumentError(
                'train.EarlyStopping takes patience and min_delta of at least 0, and the mode "min" or "max"; not '
                f"{patience=}, {min_delta=}, {mode=}"
            )
        self.metric, self.patience, self.min_delta = metric, patience, min_delta
        self._sign = 1.0 if mode == "min" else -1.0
        self._restored = [] if restore is None else list(getattr(restore, "all_params", restore.params).values())
        self._values: list[tuple[Tensor, Any]] = []
        self._ctx: Context | None = None
        self.best, self.best_epoch = self._sign * inf, -1

    def __call__(self, result: EpochResult) -> bool:
        value = result.number(self.metric)
        if self._sign * value < self._sign * self.best - self.min_delta:
            self.best, self.best_epoch, self._ctx = value, result.epoch, result.ctx
            self._values = [(p, result.ctx[p]) for p in self._restored]
        return result.epoch - self.best_epoch >= self.patience > 0 or (not self.patience and value != self.best)

    def close(self) -> None:
        """Restores the parameters of the best epoch."""
        for p, value in self._values:
            assert self._ctx is not None
            self._ctx[p] = value


@public_class()
class CsvLog:
    """Writes the numbers of each epoch to a file of comma-separated values, with a header."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = _opened(path)
        self._writer = csv.writer(self._file)
        self._names: list[str] | None = None

    def __call__(self, result: EpochResult) -> None:
        numbers = result.numbers
        if self._names is None:
            self._names = list(numbers)
            self._writer.writerow(["epoch", *self._names])
        self._writer.writerow([result.epoch, *(numbers.get(name, "") for name in self._names)])
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@public_class()
class JsonLog:
    """Writes the metrics of each epoch to a file, as an object of JSON in a line; arrays are lists."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = _opened(path)

    def __call__(self, result: EpochResult) -> None:
        arrays = {name: np.asarray(value).tolist() for name, value in result.metrics.items() if np.ndim(value)}
        self._file.write(json.dumps({"epoch": result.epoch, **result.numbers, **arrays}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@public_class()
class TensorBoardLog:
    """Writes the losses of steps and the numbers of epochs to a folder for TensorBoard, by tensorboardX."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._writer = _summary_writer(str(folder))
        self._steps = 0

    def __call__(self, result: EpochResult) -> None:
        for loss in result.losses:
            self._steps += 1
            self._writer.add_scalar("loss", loss, self._steps)
        for name, value in result.numbers.items():
            self._writer.add_scalar(name, value, result.epoch)

    def close(self) -> None:
        self._writer.close()


def _summary_writer(folder: str) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        problem = 'logs for TensorBoard need tensorboardX: pip install "ocannl-core[tensorboard]"'
        raise CodeError(problem) from error
    return SummaryWriter(folder)


def _opened(path: str | PathLike[str]) -> TextIO:
    try:
        return Path(path).open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise ArgumentError(f"the log {str(path)!r} cannot be written: {error.strerror}") from error

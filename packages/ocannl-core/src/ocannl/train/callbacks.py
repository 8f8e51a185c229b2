"""Callbacks of the training loop: what happens after each epoch."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.spelling import sealed
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import float64
from ocannl.lang.blocks import Block
from ocannl.lang.core.leaf_constructors import node, state_like
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
@sealed()
class EarlyStopping:
    """Ends the training when a metric has not improved for `patience` epochs.

    A metric improves if it is less than the best one by more than `min_delta`, or greater if `mode` is "max". With
    `restore`, such as `loss` or a block, its parameters get the values of the best epoch at the end. `best` is the best
    metric, and `best_epoch` its epoch. All state is in nodes of the context, so that checkpoints hold it.
    """

    def __init__(
        self, metric: str = "train_loss", *, patience: int = 5, min_delta: float = 0.0,
        mode: Literal["min", "max"] = "min", restore: Tensor | Block | None = None,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max") or patience < 1 or min_delta < 0:
            raise ArgumentError(
                "train.EarlyStopping takes patience of at least 1, min_delta of at least 0, and the mode "
                f'"min" or "max"; not {patience=}, {min_delta=}, {mode=}'
            )
        self.metric, self.patience, self.min_delta = metric, patience, min_delta
        self._sign = 1.0 if mode == "min" else -1.0
        self._best, self._epoch = (
            node(f"early_stopping_{name}", init=init, dtype=float64, batch=[], input=[], output=[])
            for name, init in (("best", self._sign * inf), ("epoch", -1.0))
        )
        if restore is not None and not isinstance(restore, Tensor | Block):
            raise ArgumentError(f"`restore` of train.EarlyStopping is a loss or a block, not {restore!r}"[:200])
        self._restored = restore
        self._ctx: Context | None = None

    @cached_property
    def _copies(self) -> list[tuple[Tensor, Tensor]]:
        """The parameters, with the nodes that hold their values of the best epoch."""
        source = self._restored
        parameters = {} if source is None else source.all_params if isinstance(source, Tensor) else source.params
        return [(p, state_like(f"early_stopping.{path}", p, p.dtype)) for path, p in parameters.items()]

    def checkpoint_parts(self) -> dict[str, Tensor]:
        """The nodes that a checkpoint holds, by name."""
        return {t.label: t for t in (self._best, self._epoch, *(copy for _, copy in self._copies))}

    @property
    def best(self) -> float:
        return self._sign * inf if self._ctx is None else float(self._ctx[self._best])

    @property
    def best_epoch(self) -> int:
        return -1 if self._ctx is None else int(self._ctx[self._epoch])

    def __call__(self, result: EpochResult) -> bool:
        self._ctx = ctx = result.ctx
        value = result.number(self.metric)
        if self._sign * value < self._sign * self.best - self.min_delta:
            ctx[self._best], ctx[self._epoch] = value, float(result.epoch)
            for p, copy in self._copies:
                ctx[copy] = ctx[p]
        return result.epoch - self.best_epoch >= self.patience

    def close(self) -> None:
        """Restores the parameters of the best epoch."""
        if self._ctx is not None and self.best_epoch >= 0:
            for p, copy in self._copies:
                self._ctx[p] = self._ctx[copy]


@public_class()
@sealed()
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
@sealed()
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
@sealed()
class TensorBoardLog:
    """Writes the losses of steps and the numbers of epochs to a folder for TensorBoard, by tensorboardX."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._writer = _summary_writer(folder)
        self._steps = 0

    def __call__(self, result: EpochResult) -> None:
        for loss in result.losses:
            self._steps += 1
            self._writer.add_scalar("loss", loss, self._steps)
        for name, value in result.numbers.items():
            self._writer.add_scalar(name, value, result.epoch)

    def close(self) -> None:
        self._writer.close()


def _summary_writer(folder: str | PathLike[str]) -> Any:
    name = _log_path(folder)
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        problem = 'logs for TensorBoard need tensorboardX: pip install "ocannl-core[tensorboard]"'
        raise CodeError(problem) from error
    try:
        return SummaryWriter(name)
    except (OSError, ValueError) as error:
        raise _unwritable(name, error) from error


def _opened(path: str | PathLike[str]) -> TextIO:
    name = _log_path(path)
    try:
        return Path(name).open("w", encoding="utf-8", newline="")
    except (OSError, ValueError) as error:  # ValueError for a null byte
        raise _unwritable(name, error) from error


def _log_path(path: object) -> str:
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"the path of a log is a str or a Path, not {path!r}"[:200])
    return str(path)


def _unwritable(path: str, error: OSError | ValueError) -> ArgumentError:
    return ArgumentError(f"the log {path[:100]!r} cannot be written: {getattr(error, 'strerror', error)}")

"""Checkpoints of the training loop, and the continuation of a run from the last of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from ocannl.base.errors import ArgumentError, CheckpointError
from ocannl.base.traceback_filtering import public_class
from ocannl.checkpoint.loading import load
from ocannl.checkpoint.saving import Saving, save
from ocannl.runtime.context import Context
from ocannl.runtime.routine import Routine
from ocannl.train.batches import Batches


@public_class()
@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where and how often `train.fit` saves: after each epoch, and, with `every`, after this number of steps. The last
    `keep` files are kept. With `background` a thread writes them while the training continues."""

    path: str | PathLike[str]
    every: int | None = None
    keep: int = 1
    background: bool = False

    def __post_init__(self) -> None:
        every = self.every
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ArgumentError(f"train.Checkpoints: `every` is a number of steps, at least 1, not {every!r}"[:200])


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: complete epochs, batches of the next one and their losses, and all steps."""

    epoch: int = 0
    batch: int = 0
    steps: int = 0
    losses: Sequence[float] = ()


class TrainingState:
    """What a run needs to continue: all that its step changes, the state of callbacks, and the position in the data."""

    def __init__(
        self, checkpoints: Checkpoints, ctx: Context, step: Routine, callbacks: Iterable[object], batches: object
    ) -> None:  # fmt: skip
        self._checkpoints, self._ctx = checkpoints, ctx
        parts = {f"callback_{n}": c for n, c in enumerate(callbacks) if hasattr(c, "checkpoint_parts")}
        self._contents: Any = {"step": step, **parts} if parts else step
        self._batches = batches if isinstance(batches, Batches) else None
        self._saving: Saving | None = None

    @property
    def every(self) -> int | None:
        return self._checkpoints.every

    def resumed(self) -> Progress:
        """Loads the last checkpoint, if there is one. Raises: CheckpointError if it is not of this run."""
        path = Path(self._checkpoints.path)
        if not os.path.exists(path):
            return Progress()
        checkpoint = load(path, self._ctx, self._contents)
        try:
            progress = Progress(**checkpoint.data["progress"])
            if self._batches is not None:
                self._batches.position = checkpoint.data["batches"]
        except (TypeError, KeyError, ArgumentError) as error:
            raise CheckpointError(f"{path} was not written by train.fit with this data: {error!r}") from error
        return progress

    def save(self, progress: Progress) -> None:
        data = {"progress": asdict(progress), "batches": None if self._batches is None else self._batches.position}
        self.wait()
        path, keep, background = self._checkpoints.path, self._checkpoints.keep, self._checkpoints.background
        self._saving = save(
            path, self._ctx, self._contents, step=progress.steps, data=data, keep=keep, background=background
        )

    def wait(self) -> None:
        """Waits for the file that is being written. Raises: CheckpointError if it could not be."""
        if self._saving is not None:
            self._saving.wait()

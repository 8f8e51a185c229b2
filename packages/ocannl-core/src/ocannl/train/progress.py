"""A progress bar on terminals; silent otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

ReportProgress = Callable[[int, Mapping[str, float]], None]
"""A callback with the number of completed steps, and metrics by name."""

_REFRESH_SECONDS = 0.05  # minimal interval between redraws: a step may be much shorter


@contextmanager
def progress(epochs: int, steps: int | None, show: bool | None = None) -> Iterator[ReportProgress]:
    """A bar over all steps of all epochs; `steps` is the number of steps in an epoch, None if unknown.

    By default the bar is shown if standard output is a terminal and `rich` is installed.
    """
    if not (_is_interactive() if show is None else show):
        yield _silent
        return
    with _bar() as bar:
        total = None if steps is None else steps * epochs
        yield _bar_reporter(bar, epochs, steps, total)


def _is_interactive() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and find_spec("rich") is not None


def _silent(done: int, metrics: Mapping[str, float]) -> None:
    pass


def _bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[metrics]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )


def _bar_reporter(bar: Progress, epochs: int, steps: int | None, total: int | None) -> ReportProgress:
    task = bar.add_task(_position_text(0, epochs, steps), total=total, metrics="")
    next_refresh = 0.0

    def report(done: int, metrics: Mapping[str, float]) -> None:
        nonlocal next_refresh
        now = perf_counter()
        if now >= next_refresh or done == total:
            next_refresh = now + _REFRESH_SECONDS
            position = _position_text(done, epochs, steps)
            bar.update(task, completed=done, description=position, metrics=_metrics_text(metrics))

    return report


def _position_text(done: int, epochs: int, steps: int | None) -> str:
    if not steps:
        return f"step {done}"
    return f"epoch {min(done // steps + 1, epochs):>{len(str(epochs))}}/{epochs}"


def _metrics_text(metrics: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())

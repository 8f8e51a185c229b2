"""A progress bar on terminals, one line that changes in notebooks; silent otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ocannl.base import html_text

if TYPE_CHECKING:
    from rich.progress import Progress

ReportProgress = Callable[[int, Mapping[str, float]], None]
"""A callback with the number of completed steps, and metrics by name."""

_NOTEBOOK_SECONDS = 0.5  # minimal interval between messages to the browser
_REFRESH_SECONDS = 0.05  # minimal interval between redraws: a step may be much shorter


@contextmanager
def progress(epochs: int, steps: int | None, show: bool | None = None) -> Iterator[ReportProgress]:
    """A bar over all steps of all epochs; `steps` is the number of steps in an epoch, None if unknown.

    By default the bar is shown if standard output is a terminal and `rich` is installed, or in a notebook.
    """
    total = None if steps is None else steps * epochs
    if show is not False and _is_notebook():
        yield _line_reporter(epochs, steps, total)
    elif _is_interactive() if show is None else show:
        with _bar() as bar:
            yield _bar_reporter(bar, epochs, steps, total)
    else:
        yield _silent


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


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
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )


def _bar_reporter(bar: Progress, epochs: int, steps: int | None, total: int | None) -> ReportProgress:
    task = bar.add_task(_position_text(0, epochs, steps), total=total, metrics="", rate="")
    started = perf_counter()
    next_refresh = 0.0

    def report(done: int, metrics: Mapping[str, float]) -> None:
        nonlocal next_refresh
        now = perf_counter()
        if now >= next_refresh or done == total:
            next_refresh = now + _REFRESH_SECONDS
            position, rate = _position_text(done, epochs, steps), _rate_text(done, now - started)
            bar.update(task, completed=done, description=position, metrics=_metrics_text(metrics), rate=rate)

    return report


def _line_reporter(epochs: int, steps: int | None, total: int | None) -> ReportProgress:
    """One display of a notebook, with a line of text, and the curve of the loss so far."""
    display = sys.modules["IPython"].display.display  # imported by the kernel
    started = perf_counter()
    line = display({"text/plain": _position_text(0, epochs, steps)}, raw=True, display_id=True)
    next_refresh = started + _NOTEBOOK_SECONDS
    losses: list[float] = []

    def report(done: int, metrics: Mapping[str, float]) -> None:
        nonlocal next_refresh
        now = perf_counter()
        if now >= next_refresh or done == total:
            next_refresh = now + _NOTEBOOK_SECONDS
            texts = [_position_text(done, epochs, steps), _metrics_text(metrics), _rate_text(done, now - started)]
            if total:
                texts.append(f"{(now - started) * (total - done) / max(1, done):.0f} s left")
            if not np.ndim(metrics.get("loss", ())):
                losses.append(float(metrics["loss"]))
            text = "  ".join(texts)
            markup = html_text.title("", text) + html_text.curve(losses, "loss")
            line.update({"text/plain": text, "text/html": markup}, raw=True)

    return report


def _position_text(done: int, epochs: int, steps: int | None) -> str:
    if not steps:
        return f"step {done}"
    return f"epoch {min(done // steps + 1, epochs):>{len(str(epochs))}}/{epochs}"


def _rate_text(steps: int, seconds: float) -> str:
    return f"{steps / seconds:.3g} steps/s" if seconds else ""


def _metrics_text(metrics: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items() if not np.ndim(value))

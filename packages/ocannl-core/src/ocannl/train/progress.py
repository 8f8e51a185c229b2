"""A progress bar for somebody who watches, and silence for everybody else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Tell = Callable[[int, Mapping[str, float]], None]
"""Takes the number of steps done so far, and figures by name."""

_PAUSE_SECONDS = 0.05  # between two looks at the terminal: a step may be much shorter


@contextmanager
def progress(epochs: int, steps: int | None, show: bool | None = None) -> Iterator[Tell]:
    """A bar over all steps of all epochs; `steps` is how many an epoch has, None when nobody knows.

    None for `show` means: when standard output is a terminal, and `rich` is installed.
    """
    if not (_is_watched() if show is None else show):
        yield _silent
        return
    with _bar() as bar:
        total = None if steps is None else steps * epochs
        yield _teller(bar, epochs, steps, total)


def _is_watched() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and find_spec("rich") is not None


def _silent(done: int, figures: Mapping[str, float]) -> None:
    pass


def _bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )


def _teller(bar: Progress, epochs: int, steps: int | None, total: int | None) -> Tell:
    task = bar.add_task(_epoch(0, epochs, steps), total=total, figures="")
    due = 0.0

    def tell(done: int, figures: Mapping[str, float]) -> None:
        nonlocal due
        now = perf_counter()
        if now >= due or done == total:
            due = now + _PAUSE_SECONDS
            bar.update(task, completed=done, description=_epoch(done, epochs, steps), figures=_text(figures))

    return tell


def _epoch(done: int, epochs: int, steps: int | None) -> str:
    if not steps:
        return f"step {done}"
    return f"epoch {min(done // steps + 1, epochs):>{len(str(epochs))}}/{epochs}"


def _text(figures: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in figures.items())

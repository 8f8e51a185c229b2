"""Recording of the routines that a script compiles, and of the symbols of their calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ocannl.runtime.routine import Routine

_recordings: list[list[Routine]] = []


@contextmanager
def recorded_routines() -> Iterator[list[Routine]]:
    """Yields a list to which the routines are added that contexts create meanwhile, in any thread."""
    routines: list[Routine] = []
    _recordings.append(routines)
    try:
        yield routines
    finally:
        _recordings.remove(routines)


def is_recording() -> bool:
    return bool(_recordings)


class RecordedRoutine(Routine):
    """A routine that remembers the values of the symbols of its last call."""

    __slots__ = ("last_symbols",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.last_symbols: dict[str, Any] = {}

    def __call__(self, /, **symbols: Any) -> None:
        super().__call__(**symbols)
        self.last_symbols = symbols


def record(routine: Routine) -> Routine:
    for routines in _recordings:
        routines.append(routine)
    return routine

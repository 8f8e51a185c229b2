"""Recording of the routines that a script compiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


def record(routine: Routine) -> Routine:
    for routines in _recordings:
        routines.append(routine)
    return routine

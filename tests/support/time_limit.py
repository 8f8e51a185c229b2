"""A limit on the time of one case, so that a defect which makes a loop endless is a failure like others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(Exception):
    """A case has used up its time."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` after so many seconds of the process's own time, however busy the machine is.

    Only in the main thread.
    """

    def stop(*_: object) -> None:
        raise TookTooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

"""CPU time limit of a test case, so that an endless loop is an ordinary failure."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(Exception):
    """The time limit was exceeded."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `TookTooLong` after this many seconds of CPU time of the process.

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

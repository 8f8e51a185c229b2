"""Time limit of a test case, so that an endless loop or a call that blocks is an ordinary failure."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(Exception):
    """The time limit was exceeded."""


@contextmanager
def time_limit(seconds: float, *, elapsed: bool = False) -> Iterator[None]:
    """Raises `TookTooLong` after this many seconds of CPU time of the process, or of elapsed time.

    Only in the main thread.
    """

    def stop(*_: object) -> None:
        raise TookTooLong(f"more than {seconds} s")

    number, timer = (
        (signal.SIGALRM, signal.ITIMER_REAL) if elapsed else (signal.SIGVTALRM, signal.ITIMER_VIRTUAL)
    )
    before = signal.signal(number, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)

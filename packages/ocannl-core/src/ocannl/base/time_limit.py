"""A time limit for code in this process that may hang, such as the import of a plugin."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

REPEAT_SECONDS = 0.5  # for code that handles every exception


class TimeLimitReached(BaseException):
    """Raised in code that has exceeded its time limit; not an `Exception`, which such code might handle."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager that raises `TimeLimitReached` within code that takes longer.

    The limit is kept by the timer of the process: it holds in the main thread of systems that have this timer, unless
    the application uses it, and it cannot interrupt native code that neither returns nor waits.
    """
    if not _is_timer_free():
        yield
        return

    def expire(_signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitReached

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


def _is_timer_free() -> bool:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0

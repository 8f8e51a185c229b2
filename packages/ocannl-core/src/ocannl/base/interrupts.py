"""Repairs after an interrupt (Ctrl-C).

Python raises `KeyboardInterrupt` between any two instructions of the main thread: also after a method written in Python
has acquired a lock, and before the block that would release it begins. Public functions therefore call `repair` when an
interrupt leaves them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

_repairs: list[Callable[[], None]] = []


def repair_after_interrupt(function: Callable[[], None]) -> Callable[[], None]:
    """Registers a function that is called when an interrupt leaves the framework, in the thread that it has stopped."""
    _repairs.append(function)
    return function


def repair() -> None:
    """Calls the registered functions, unless the caller of the caller was itself called by the framework."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "ocannl":
            return
        frame = frame.f_back
    for function in _repairs:
        function()

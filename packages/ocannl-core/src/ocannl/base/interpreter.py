"""The Python interpreter."""

from __future__ import annotations

import sys

from ocannl.base.errors import UnsupportedInterpreter


def require_gil() -> None:
    """Raises UnsupportedInterpreter without the global interpreter lock, which protects contexts and compiled code. The
    builds of Python that can do without it (PEP 703) can also run with it."""
    is_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    if not is_enabled():
        raise UnsupportedInterpreter(
            "ocannl needs the global interpreter lock, which this free-threaded Python has disabled; set PYTHON_GIL=1"
            " in the environment, which processes that ocannl starts inherit"
        )

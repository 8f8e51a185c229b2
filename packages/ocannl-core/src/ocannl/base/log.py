"""What the framework says beside its errors, under the logger "ocannl".

Warnings reach standard error even in a program that configures nothing, which is Python's own rule; the setting
`log_level` prints more without a line of code.

    ocannl.runtime.compile    INFO   what was compiled, and how long each stage took
    ocannl.runtime.compile_cache      DEBUG  where code was found, or why it had to be compiled
    ocannl.runtime.context    DEBUG  what routines were bound to
    ocannl.runtime.arrays     DEBUG  values on their way to the device and back; `runtime.transfer`: between contexts
    ocannl.trace              DEBUG  every cell that a call writes, if the setting `trace` asks for it
"""

from __future__ import annotations

import logging

from ocannl.base.config import LOG_LEVEL

ROOT = logging.getLogger("ocannl")
_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter("%(name)s: %(levelname)s: %(message)s"))


def logger(name: str) -> logging.Logger:
    """For one module: `logger("runtime.cache")`."""
    return ROOT.getChild(name)


def configure() -> None:
    """Follow the setting `log_level`; without it, leave handlers and levels to the application."""
    level = LOG_LEVEL.get()
    if level is None:
        return
    ROOT.setLevel(level.upper())
    _print()


def show(log: logging.Logger) -> None:
    """Somebody has asked for what this one says: it reaches the handlers of the application, or else standard error."""
    log.setLevel(logging.DEBUG)
    if not log.hasHandlers():
        _print()


def _print() -> None:
    if _handler not in ROOT.handlers:
        ROOT.addHandler(_handler)
        ROOT.propagate = False

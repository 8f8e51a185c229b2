"""What the framework says beside its errors, under the logger "ocannl".

Warnings reach standard error even in a program that configures nothing, which is Python's own rule; the setting
`log_level` prints more without a line of code.
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
    if _handler not in ROOT.handlers:
        ROOT.addHandler(_handler)
        ROOT.propagate = False

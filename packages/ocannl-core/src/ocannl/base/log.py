"""Logging of the framework, under the logger "ocannl".

By Python's default configuration, warnings are printed to standard error; the setting `log_level` prints more without
code.

    ocannl.runtime.compile        INFO   compiled routines, with the time of each stage
    ocannl.runtime.compile_cache  DEBUG  cache hits, and the reasons for misses
    ocannl.runtime.context        DEBUG  bindings of routines to memory
    ocannl.runtime.device_arrays         DEBUG  copies between host and device; `runtime.transfer`: between contexts
    ocannl.trace                  DEBUG  every cell written by a call, with the setting `trace`
"""

from __future__ import annotations

import logging

from ocannl.base.config import LOG_LEVEL

ROOT = logging.getLogger("ocannl")
_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter("%(name)s: %(levelname)s: %(message)s"))


def logger(name: str) -> logging.Logger:
    """Returns the logger of a module, as in `logger("base.disk_cache")`."""
    return ROOT.getChild(name)


def configure() -> None:
    """Applies the setting `log_level`; if it is unset, handlers and levels are left to the application."""
    level = LOG_LEVEL.get()
    if level is None:
        return
    ROOT.setLevel(level.upper())
    _print()


def show(log: logging.Logger) -> None:
    """Enables all messages of a logger; they go to the application's handlers, or else to standard error."""
    log.setLevel(logging.DEBUG)
    if not log.hasHandlers():
        _print()


def _print() -> None:
    if _handler not in ROOT.handlers:
        ROOT.addHandler(_handler)
        ROOT.propagate = False

"""The collector of cycles, while there is much that is made and kept, and no garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_resting = False


@contextmanager
def resting() -> Iterator[None]:
    """Nothing is collected: again and again the collector would look at trees that are all in use."""
    global _resting
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _resting = True
    try:
        yield
    finally:
        _resting = False
        gc.enable()


def _after_fork() -> None:
    """In a child, nobody may be left who would let it work again."""
    if _resting:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

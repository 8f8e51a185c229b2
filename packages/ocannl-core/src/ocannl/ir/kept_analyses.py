"""Results of analyses that are kept with the loops that they describe: loops are immutable and outlast many passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ocannl.ir.loops import For

R = TypeVar("R")


def kept_with_loop(analysis: Callable[[For], R]) -> Callable[[For], R]:
    """Decorator of a function that depends on the loop only and whose results are immutable."""

    @wraps(analysis)
    def kept(loop: For) -> R:
        try:
            results = loop.analyses
        except AttributeError:  # the first analysis
            results = {}
            object.__setattr__(loop, "analyses", results)
        if analysis not in results:
            results[analysis] = analysis(loop)
        result: R = results[analysis]
        return result

    return kept

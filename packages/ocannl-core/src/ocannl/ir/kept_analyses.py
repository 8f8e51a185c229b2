"""Results of analyses, kept with the objects that they describe: these are immutable and outlast many passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar


class Analyzed:
    """Has a slot for results of analyses, which take no part in comparisons and copies."""

    __slots__ = ("analyses",)

    analyses: dict[object, Any]


A = TypeVar("A", bound=Analyzed)
R = TypeVar("R")


def kept_with_argument(analysis: Callable[[A], R]) -> Callable[[A], R]:
    """Decorator of a function that depends on its argument only and whose results are immutable."""

    @wraps(analysis)
    def kept(argument: A) -> R:
        try:
            results = argument.analyses
        except AttributeError:  # the first analysis
            results = {}
            object.__setattr__(argument, "analyses", results)
        if analysis not in results:
            results[analysis] = analysis(argument)
        result: R = results[analysis]
        return result

    return kept

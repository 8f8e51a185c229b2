"""Analyses whose results are cached on the objects that they describe, which are immutable and outlast many passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple


class Analyzed:
    """Has a slot for results of analyses, which take no part in comparisons and copies."""

    __slots__ = ("analyses",)

    analyses: dict[object, Any]


A = TypeVar("A", bound=Analyzed)
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def cached_on_argument(analysis: Callable[[A, *Ts], R]) -> Callable[[A, *Ts], R]:
    """Decorator that caches results on the first argument. They must be immutable, and depend on the arguments only."""

    @wraps(analysis)
    def cached(argument: A, *args: *Ts) -> R:
        key = (analysis, *args)
        try:
            results = argument.analyses
        except AttributeError:  # the first analysis
            results = {}
            object.__setattr__(argument, "analyses", results)
        if key not in results:
            results[key] = analysis(argument, *args)
        result: R = results[key]
        return result

    return cached

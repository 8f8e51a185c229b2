"""Analyses whose results are cached on the objects that they describe, which are immutable and outlast many passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar


class Analyzed:
    """Has a slot for results of analyses, which take no part in comparisons and copies."""

    __slots__ = ("analyses",)

    analyses: dict[object, Any]


A = TypeVar("A", bound=Analyzed)
P = ParamSpec("P")
R = TypeVar("R")


def cached_on_argument(analysis: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """Decorator that caches results on the first argument. They must be immutable, and depend on the arguments only,
    which are positional."""

    @wraps(analysis)
    def cached(argument: A, /, *args: P.args, **_: P.kwargs) -> R:
        key = (analysis, *args)
        try:
            results = argument.analyses
        except AttributeError:  # the first analysis
            results = {}
            object.__setattr__(argument, "analyses", results)
        if key not in results:
            results[key] = analysis(argument, *args)  # type: ignore[call-arg]
        result: R = results[key]
        return result

    return cached

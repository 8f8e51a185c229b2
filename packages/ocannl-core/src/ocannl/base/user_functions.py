"""Functions that users pass as arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NO_ARGUMENTS: Mapping[str, Any] = {}


def call_problem(
    function: Callable[..., Any], args: Sequence[Any], settings: Mapping[str, Any] = NO_ARGUMENTS
) -> str:
    """Returns why a function cannot be called with these arguments, or an empty text if it can, or has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **settings)
    except TypeError as error:
        return str(error)
    return ""

"""Inputs of one training step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.lang.core.symbols import Symbol
from ocannl.runtime.context import Context

Feed = Mapping[Any, Any]
"""Arrays for placeholders, integers for static symbols."""


def bind_feed(ctx: Context, feed: Feed) -> dict[str, Any]:
    """Sets the placeholders of a step and returns the values of its symbols."""
    if type(feed) is not dict and not isinstance(feed, Mapping):  # the first test is faster
        raise CodeError(f"a batch must be a mapping from placeholders to arrays, {{x: xs, t: ts}}, not {feed!r}"[:200])
    symbols = {}
    for key, value in feed.items():
        if isinstance(key, Symbol):
            symbols[key.name] = value
        else:
            ctx.set(key, value)
    return symbols

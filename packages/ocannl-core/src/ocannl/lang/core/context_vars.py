"""What surrounds an expression: the user's frame, and whether code is being recorded or gradients are wanted.

Context variables, and nothing else, carry the ambient state; so threads and coroutines do not see each other's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import cache, wraps
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import next_id
from ocannl.lang.core.variable_names import bound_name

_INTERNAL = ("ocannl.lang", "ocannl.infer", "ocannl.ir", "ocannl.base", "ocannl.lower")

differentiable: ContextVar[bool] = ContextVar("ocannl_differentiable", default=True)
MOST = 5
"""So many of a list are written out."""

Words = Callable[[], str]
composed: ContextVar[Words | None] = ContextVar("ocannl_composed", default=None)
"""The call that the operations being built belong to, as the user wrote it."""

F = TypeVar("F", bound=Callable[..., Any])


def checked_label(label: object) -> str:
    """A label that a user gave: any text that can be written down."""
    if not isinstance(label, str) or not label:
        raise CodeError(f"a label is a text, not {label!r}")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise CodeError(f"the label {label!r} holds half of a character") from None
    return label


class no_grad(ContextDecorator):
    """Everything built inside, or in a function that it decorates, has no gradient."""

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def _recreate_cm(self) -> no_grad:
        return no_grad()  # one for each call of a decorated function: calls may be in several threads

    def __enter__(self) -> None:
        self._tokens.append(differentiable.set(False))

    def __exit__(self, *exception: object) -> None:
        differentiable.reset(self._tokens.pop())


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's code: file and line, and the name that the value made there is bound to, if any."""

    where: str
    name: str


def site() -> Site:
    """The innermost place outside the framework's own machinery."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and type(name := frame.f_globals.get("__name__")) is str and _is_ours(name):
        frame = frame.f_back
    if frame is None:
        return Site("", "")
    code, is_named = frame.f_code, composed.get() is None
    key = id(code), frame.f_lasti, is_named
    known = _sites.get(key)
    if known is None or known[0] is not code:
        file = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
        found = Site(f"{file}:{frame.f_lineno}", bound_name(code, frame.f_lasti) if is_named else "")
        if len(_sites) >= MOST_SITES:
            _sites.clear()
        known = _sites[key] = code, found
    return known[1]


MOST_SITES = 1 << 16
_sites: dict[tuple[int, int, bool], tuple[CodeType, Site]] = {}  # by code object: to hash one takes long


@cache
def _is_ours(module: str) -> bool:
    return module.startswith(_INTERNAL)


def composite(function: F) -> F:
    """A function that builds its result from several operations: only the result takes the name it is bound to, and in
    errors each of them is the call of the function."""

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        name, first = site().name, next_id()
        token = composed.set(composed.get() or (lambda: written(function, args, settings)))
        try:
            result = function(*args, **settings)
        finally:
            composed.reset(token)
        if hasattr(result, "rename_if_unnamed") and result.node.id > first:  # else it was handed through
            result.rename_if_unnamed(name or function.__name__.rstrip("_"))
        return result

    return cast("F", call)


def written(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> str:
    """A call, as the user might have written it."""
    words = [
        *(word(given) for given in args if given is not None),
        *(f"{name}={word(value)}" for name, value in settings.items()),
    ]
    return f"{function.__name__.rstrip('_')}({', '.join(words)})"


def word(given: Any) -> str:
    if isinstance(given, list | tuple):
        words = ", ".join([word(item) for item in given[:MOST]] + ["..."] * (len(given) > MOST))
        return f"[{words}]" if isinstance(given, list) else f"({words})"
    if hasattr(given, "provenance"):
        return str(given.label if given.named else given.provenance.expression)
    if isinstance(given, str):
        return f'"{given}"'
    return repr(given) if isinstance(given, int | float) else type(given).__name__

"""Context of an expression: its call site, the enclosing call, and whether gradients are built.

All ambient state lives in context variables, so that threads and coroutines are isolated from each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import cache, wraps
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

from ocannl.base import extensions
from ocannl.base.errors import CodeError
from ocannl.base.source_positions import SourcePosition
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.tnode import next_id
from ocannl.lang.core.variable_names import bound_name

_INTERNAL = ("ocannl.lang", "ocannl.infer", "ocannl.ir", "ocannl.base", "ocannl.lower")

gradients_enabled: ContextVar[bool] = ContextVar("ocannl_differentiable", default=True)
MAX_ITEMS_SHOWN = 5
"""Items of a list that are written out in the text of a call."""

LazyText = Callable[[], str]
enclosing_call: ContextVar[LazyText | None] = ContextVar("ocannl_composed", default=None)
"""The user's call that the operations being built belong to, as text."""

loop_positions: ContextVar[tuple[Any, ...]] = ContextVar("ocannl_loop_positions", default=())
"""The numbers of the current steps, as tensors, of the loops whose bodies are being traced, outer loops first."""

may_update_states: ContextVar[bool] = ContextVar("ocannl_may_update_states", default=True)
"""Whether blocks may update states: not in the body of a loop or of a branch."""

block_path: ContextVar[str] = ContextVar("ocannl_block_path", default="")
"""The path of the block that is applied; empty outside of blocks with labels."""

F = TypeVar("F", bound=Callable[..., Any])


def checked_label(label: object) -> str:
    """A label given by a user: any text that can be encoded. Raises: CodeError for anything else."""
    if not isinstance(label, str) or not label:
        raise CodeError(f"a label must be a string, not {label!r}"[:200])
    try:
        label.encode()
    except UnicodeEncodeError:
        raise CodeError(f"the label {label!r} contains an unpaired surrogate") from None
    return label


_constants: ContextVar[set[Any] | None] = ContextVar("ocannl_constants", default=None)


@contextmanager
def noted_constants() -> Iterator[set[Any]]:
    """Collects the nodes of results without a derivative from the code that is generated inside."""
    constants: set[Any] = set()
    token = _constants.set(constants)
    try:
        yield constants
    finally:
        _constants.reset(token)


def note_constant(node: object) -> None:
    """Notes a result whose operation has no derivative."""
    constants = _constants.get()
    if constants is not None:
        constants.add(node)


@public_class()
class no_grad(ContextDecorator):
    """Disables gradients of everything built inside, or in a decorated function."""

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def _recreate_cm(self) -> no_grad:
        return no_grad()  # one per call of a decorated function: calls may run in several threads

    def __enter__(self) -> None:
        self._tokens.append(gradients_enabled.set(False))

    def __exit__(self, *exception: object) -> None:
        gradients_enabled.reset(self._tokens.pop())


@dataclass(frozen=True, slots=True)
class CallSite:
    """A position in the user's code: file and line, and the variable that stores the value, if any."""

    where: str
    name: str


def site() -> CallSite:
    """The call site of an expression.

    The variable is that of the innermost frame outside the language, which may be a layer of this package; the line is
    that of the innermost frame outside the package.
    """
    frame = _first_outside(_is_internal, sys._getframe(1))
    if frame is None:
        return CallSite("", "")
    innermost = _cached_site(frame)
    if _is_part_of_package(_module(frame)) and (outer := _first_outside(_is_part_of_package, frame)) is not None:
        return CallSite(_cached_site(outer).where, innermost.name)
    return innermost


def _first_outside(is_inside: Callable[[str], bool], frame: FrameType | None) -> FrameType | None:
    while frame is not None and is_inside(_module(frame)):
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else ""


def _cached_site(frame: FrameType) -> CallSite:
    code, is_named = frame.f_code, enclosing_call.get() is None
    key = id(code), frame.f_lasti, is_named
    cached = _site_cache.get(key)
    if cached is None or cached[0] is not code:
        where = SourcePosition(code.co_filename, frame.f_lineno)
        position = CallSite(where, bound_name(code, frame.f_lasti) if is_named else "")
        if len(_site_cache) >= MAX_CACHED_SITES:
            _site_cache.clear()
        cached = _site_cache[key] = code, position
    return cached[1]


MAX_CACHED_SITES = 1 << 16
_site_cache: dict[tuple[int, int, bool], tuple[CodeType, CallSite]] = {}  # keyed by id: hashing a code object is slow


@cache
def _is_internal(module: str) -> bool:
    return module.startswith(_INTERNAL)


@cache
def _is_part_of_package(module: str) -> bool:
    return module.partition(".")[0] in extensions.PACKAGES


@dataclass(frozen=True, slots=True, eq=False)
class UserCall:
    """A user's call of a function; as a function itself, its text."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.__name__.rstrip("_")

    def __call__(self) -> str:
        return call_text(self.name, self.args, self.settings)


def composite(function: F) -> F:
    """Decorates a function that builds its result from several operations.

    Only the result takes the name of the variable it is assigned to; errors show every operation as the call.
    """

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        name, first = site().name, next_id()
        token = enclosing_call.set(enclosing_call.get() or UserCall(function, args, settings))
        try:
            result = function(*args, **settings)
        finally:
            enclosing_call.reset(token)
        if hasattr(result, "rename_if_unnamed") and result.node.id > first:  # no argument passed on
            result.rename_if_unnamed(name or function.__name__.rstrip("_"))
        return result

    return cast("F", call)


def call_text(name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> str:
    """A call in source form."""
    arguments = [
        *(argument_text(argument) for argument in args if argument is not None),
        *(f"{keyword}={argument_text(value)}" for keyword, value in settings.items()),
    ]
    return f"{name}({', '.join(arguments)})"


def argument_text(argument: Any) -> str:
    if isinstance(argument, list | tuple):
        shown = [argument_text(item) for item in argument[:MAX_ITEMS_SHOWN]]
        items = ", ".join(shown + ["..."] * (len(argument) > MAX_ITEMS_SHOWN))
        return f"[{items}]" if isinstance(argument, list) else f"({items})"
    if hasattr(argument, "provenance"):
        return str(argument.label if argument.is_named else argument.provenance.expression)
    if isinstance(argument, str):
        return f'"{argument}"'
    return repr(argument) if isinstance(argument, int | float) else type(argument).__name__

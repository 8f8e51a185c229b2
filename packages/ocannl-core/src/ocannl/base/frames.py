"""Traceback filtering: user errors end at the user's line, without the frames of the framework."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection
from functools import wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from ocannl.base.config import TRACEBACK
from ocannl.base.errors import OcannlError

F = TypeVar("F", bound=Callable[..., Any])


def public(function: F) -> F:
    """Decorator of public functions: errors of the framework are raised without its frames; all others keep them."""

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            return function(*args, **settings)
        except OcannlError as error:
            if TRACEBACK.get() == "full":
                raise
            raise error.with_traceback(user_frames(error.__traceback__))  # noqa: B904

    return cast("F", call)


def user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the framework's frames."""
    entries: list[TracebackType] = []
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] != "ocannl":
            entries.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def user_line() -> str:
    """Returns the current line, as `file.py:12`, of the innermost frame outside the framework."""
    frame = _user_frame()
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def warn_user(message: Warning) -> None:
    """Issues a warning at the current line of the innermost frame outside the framework."""
    frame = _user_frame()
    if frame is None:
        warnings.warn(message, stacklevel=2)
    else:
        warnings.warn_explicit(message, type(message), frame.f_code.co_filename, frame.f_lineno)


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "ocannl":
        frame = frame.f_back
    return frame


OPERATORS = (
    "add", "sub", "mul", "truediv", "pow", "mod", "matmul", "lt", "le", "gt", "ge", "and", "or", "neg", "pos", "abs",
    "invert", "getitem", "setitem", "call",
)  # fmt: skip
IMPLICIT_METHODS = {"__init__", "__str__", "__int__"} | {
    f"__{prefix}{name}__" for name in OPERATORS for prefix in ("", "r", "i")
}
"""Special methods that are public because Python calls them implicitly."""


def publish(kind: type, exclude: Collection[str] = ()) -> None:
    """Applies `public` to the methods, properties and operators of a class. `exclude` names hot methods that never
    raise user errors."""
    for name, member in list(vars(kind).items()):
        if (name.startswith("_") and name not in IMPLICIT_METHODS) or name in exclude:
            continue
        if isinstance(member, FunctionType):
            setattr(kind, name, public(member))
        elif isinstance(member, property) and member.fget is not None:
            setattr(kind, name, property(public(member.fget), member.fset, member.fdel, member.__doc__))

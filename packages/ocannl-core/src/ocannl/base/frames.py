"""Tracebacks of refusals end at the user's line: the frames of the framework below it say nothing to its author."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from functools import wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from ocannl.base.config import TRACEBACK
from ocannl.base.errors import OcannlError, VerifyError

F = TypeVar("F", bound=Callable[..., Any])


def public(function: F) -> F:
    """A function that users call. Refusals leave it without the framework's frames; defects keep all of them."""

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            return function(*args, **settings)
        except VerifyError:
            raise
        except OcannlError as error:
            if TRACEBACK.get() == "full":
                raise
            raise error.with_traceback(of_users(error.__traceback__))  # noqa: B904

    return cast("F", call)


def of_users(trace: TracebackType | None) -> TracebackType | None:
    """The entries of a traceback that are not the framework's."""
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
    """The line that runs, `file.py:12`, of the innermost frame that is not the framework's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "ocannl":
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


OPERATORS = (
    "add", "sub", "mul", "truediv", "pow", "mod", "matmul", "lt", "le", "gt", "ge", "and", "or", "neg", "pos", "abs",
    "invert", "getitem", "setitem", "call",
)  # fmt: skip
SPOKEN = {f"__{prefix}{name}__" for name in OPERATORS for prefix in ("", "r", "i")} | {"__init__", "__str__", "__int__"}
"""The methods that a user calls without saying their names."""


def publish(kind: type, but: Collection[str] = ()) -> None:
    """Make the methods and properties of a class public, operators included; `but` those that refuse nothing and are
    called over and over."""
    for name, member in list(vars(kind).items()):
        if (name.startswith("_") and name not in SPOKEN) or name in but:
            continue
        if isinstance(member, FunctionType):
            setattr(kind, name, public(member))
        elif isinstance(member, property) and member.fget is not None:
            setattr(kind, name, property(public(member.fget), member.fset, member.fdel, member.__doc__))

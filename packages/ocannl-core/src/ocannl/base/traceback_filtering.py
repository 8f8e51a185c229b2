"""Traceback filtering: user errors end at the user's line, without the frames of the framework."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

from ocannl.base.annotations import misfit
from ocannl.base.config import TRACEBACK
from ocannl.base.errors import ArgumentError, OcannlError
from ocannl.base.extensions import PACKAGES
from ocannl.base.interrupts import repair
from ocannl.base.keyword_answers import MISFITS, POSITIONS, SIZES, unknown_keyword

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def public(function: F) -> F:
    """Decorator of public functions: errors of the framework are raised without its frames; all others keep them.

    An error of Python that comes from arguments that do not fit the signature, or its annotations, is replaced by an
    `ArgumentError`. Arguments are only compared after such an error, so that calls cost nothing.
    """

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            try:
                return function(*args, **settings)
            except OcannlError:
                raise
            except PYTHON_ERRORS as error:
                internal = is_internal(error)
                problem = argument_problem(function, args, settings) or _size_problem(error) if internal else ""
                if not problem:
                    raise
                raise ArgumentError(problem) from (error if TRACEBACK.get() == "full" else None)
        except OcannlError as error:
            if TRACEBACK.get() != "full":
                error.__traceback__ = user_frames(error.__traceback__)
            raise  # without an expression, so that Python does not add this frame again
        except KeyboardInterrupt:
            repair()
            raise

    return cast("F", call)


def checked(function: F) -> F:
    """Decorator of public functions that are seldom called: arguments are compared with the annotations first."""

    @public
    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        if problem := argument_problem(function, args, settings):
            raise ArgumentError(problem)
        return function(*args, **settings)

    return cast("F", call)


PYTHON_ERRORS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError, RecursionError)


def is_internal(error: BaseException) -> bool:
    """Whether an error was raised by the framework, or by what it calls, rather than by a function of the user."""
    trace, user = error.__traceback__, False
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
        user = user or package not in LIBRARIES
        trace = trace.tb_next
    return not user


LIBRARIES = sys.stdlib_module_names | PACKAGES | {"numpy", "ml_dtypes"} - {"__main__"}


def argument_problem(
    function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any], complete: bool = True
) -> str:
    """The first problem of the arguments of a call, or an empty text: an unknown keyword, or a missing or unfit one.

    Unless they are `complete`, arguments in positions may be missing.
    """
    title = title_of(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    parameters = signature.parameters.values()
    keywords = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"]
    variadic = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
    keywords += SIZES if variadic == "sizes" else ()
    if variadic in ("", "sizes") and (problem := unknown_keyword(title, settings, keywords)):
        return problem
    try:
        bound = signature.bind_partial(*args, **settings)
        missing = {} if complete else {p.name: None for p in parameters if p.kind is not p.KEYWORD_ONLY}
        signature.bind(*args, **settings, **{n: v for n, v in missing.items() if n not in bound.arguments})
    except TypeError as error:
        sizes = next((a for a in args if isinstance(a, list | tuple) and all(isinstance(n, int) for n in a)), None)
        problem = f"{title}{_shown_parameters(signature)}: {error}"
        hint = f"sizes are given as output={list(sizes)}" if sizes and "output" in keywords else POSITIONS.get(title)
        return f"{problem}; {hint}" if hint else problem
    mismatch = misfit(function, bound)
    if mismatch is None:
        return ""
    name, value, kind = mismatch
    hint = f"; {MISFITS[name]}" if name in MISFITS else ""
    if not hint and kind == "a Tensor" and (isinstance(value, list | tuple) or hasattr(value, "__array__")):
        hint = "; write oc.tensor(data), or oc.placeholder(...) for data of each run"
    return f"{title}: `{name}` is {kind}, not {_shown(value)}{hint}"


def _shown_parameters(signature: inspect.Signature) -> str:
    """The parameters of a call without annotations; functions by name."""
    shown = []
    for p in signature.parameters.values():
        default = _Named(p.default.__name__) if isinstance(p.default, FunctionType) else p.default
        shown += [p.replace(annotation=p.empty, default=default)] if p.name != "self" else []
    return str(inspect.Signature(shown))


class _Named(str):
    """A default that is shown as a name."""

    __repr__ = str.__str__


def _size_problem(error: Exception) -> str:
    """What Python itself does not take."""
    if isinstance(error, RecursionError):
        return "an argument, or the expression that it belongs to, is nested too deep"
    return f"an argument is too large: {error}" if "integer string conversion" in str(error) else ""


def title_of(function: Callable[..., Any]) -> str:
    """How a function is called: `oc.relu`, `nn.linear`, `Tensor.astype`; `block` for `Block.__call__`."""
    name = getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
    if name.endswith(".__call__"):
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", name.removesuffix(".__call__")).lower()
    if "." in name:
        return name.removesuffix(".__init__")
    module = str(getattr(function, "__module__", ""))
    return next((prefix for start, prefix in PREFIXES.items() if module.startswith(start)), "oc.") + name


PREFIXES = {
    "ocannl.train": "train.", "ocannl.nn": "nn.", "ocannl.lang.linalg": "oc.linalg.", "ocannl.lang.fft": "oc.fft.",
    "ocannl.lang.declare.defop": "oc.", "ocannl.lang.declare": "declare.", "ocannl_onnx": "oc.onnx.",
}  # fmt: skip
"""What users write before the names of functions, by module."""


def _shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a class of the user
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


MAX_SHOWN = 80


def user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the framework's frames."""
    entries: list[TracebackType] = []
    while trace is not None:
        if not _is_own(trace.tb_frame):
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


def user_names() -> Mapping[str, Any]:
    """The local names of the innermost frame outside the framework, for annotations that are text."""
    frame = _user_frame()
    return {} if frame is None else frame.f_locals


def warn_user(message: Warning) -> None:
    """Issues a warning at the current line of the innermost frame outside the framework."""
    frame = _user_frame()
    if frame is None:
        warnings.warn(message, stacklevel=2)
    else:
        warnings.warn_explicit(message, type(message), frame.f_code.co_filename, frame.f_lineno)


def _is_own(frame: FrameType) -> bool:
    """Whether the frame belongs to the core or to an extension of this project."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in PACKAGES


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    return frame


OPERATORS = (
    "add", "sub", "mul", "truediv", "pow", "mod", "matmul", "lt", "le", "gt", "ge", "and", "or", "neg", "pos", "abs",
    "invert", "getitem", "setitem", "call",
    "floordiv", "divmod", "lshift", "rshift", "xor",
)  # fmt: skip
IMPLICIT_METHODS = {
    "__init__", "__getattr__", "__str__", "__int__", "__len__", "__contains__", "__iter__", "__round__", "__delitem__",
    "__array_ufunc__",
    *(f"__{prefix}{name}__" for name in OPERATORS for prefix in ("", "r", "i")),
}  # fmt: skip
"""Special methods that are public because Python calls them implicitly."""


def public_class(exclude: Collection[str] = ()) -> Callable[[type[T]], type[T]]:
    """Decorator of public classes: applies `public` to the methods, properties and operators that the class defines.
    `exclude` names hot methods that never raise user errors."""

    def decorate(kind: type[T]) -> type[T]:
        for name, member in list(vars(kind).items()):
            if (name.startswith("_") and name not in IMPLICIT_METHODS) or name in exclude:
                continue
            if isinstance(member, FunctionType):
                setattr(kind, name, public(member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(kind, name, property(public(member.fget), member.fset, member.fdel, member.__doc__))
        return kind

    return decorate

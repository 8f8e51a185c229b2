"""Values against annotations: whether an argument has the type that its parameter declares."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

NUMBERS: dict[type, type] = {int: numbers.Integral, float: numbers.Real, complex: numbers.Complex}
"""The numeric tower: a number of a narrower type, or of NumPy, fits a wider annotation; truth values do not."""

LISTS = (list, tuple, Sequence, Iterable)
"""The annotations of lists, whose items are compared with the annotation of the items."""


def fits(value: object, kind: Any) -> bool:
    """Whether a value matches an annotation; annotations that a value cannot be checked against match."""
    if kind is Any:
        return True
    if kind is None:
        return value is None
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(type(value) is type(literal) and value == literal for literal in members)
    if origin in (Union, UnionType):
        return any(fits(value, member) for member in members)
    if origin is tuple and Ellipsis not in members:
        return isinstance(value, tuple | list) and len(value) == len(members) and all(map(fits, value, members))
    if origin in LISTS and isinstance(value, str | bytes | bytearray) and members[0] is not str:
        return False
    if origin in LISTS and isinstance(value, list | tuple) and not all(fits(item, members[0]) for item in value):
        return False
    kind = origin or kind
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) and not getattr(kind, "_is_protocol", False) else True


def kind_text(kind: Any) -> str:
    """An annotation in words of the reader: `one of 'a', 'b'`, or `float | Tensor`."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else inspect.formatannotation(kind)


def readable(kind: Any) -> str:
    """An annotation in words: `a float, a Tensor or None`."""
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(repr, members))}"
    if origin in (Union, UnionType):
        phrases = list(dict.fromkeys(map(readable, members)))
        return " or ".join(filter(None, [", ".join(phrases[:-1]), phrases[-1]]))
    if origin is tuple:
        return f"a pair of {readable(members[0]).partition(' ')[2]}s" if len(members) == 2 else "a tuple"
    if kind in (None, type(None)):
        return "None"
    name = getattr(origin or kind, "__name__", str(kind))
    return PHRASES.get(name, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")


PHRASES = {
    "int": "an integer", "float": "a number", "str": "a string", "bool": "True or False", "Callable": "a function",
    "Sequence": "a list", "Iterable": "a list", "Mapping": "a mapping", "list": "a list", "dict": "a mapping",
}  # fmt: skip


def misfit(function: Callable[..., Any], bound: inspect.BoundArguments) -> tuple[str, object, str] | None:
    """The first argument that does not match its annotation: name, value, and the annotation as text."""
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        kind = _evaluated(parameter.annotation, function)
        is_default = value is parameter.default and value is not parameter.empty
        if kind is parameter.empty or kind is object or is_default:
            continue
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        values = list(value.values() if isinstance(value, dict) else value) if several else [value]
        for item in values:
            if not fits(item, kind):
                return name, item, readable(kind)
    return None


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """An annotation, evaluated in the globals of its function if it is text; names for type checkers match anything."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))
    except Exception:  # a name imported for type checkers only
        return Any

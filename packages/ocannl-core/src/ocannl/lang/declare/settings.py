"""What configures an operation: the type of a setting, its allowed values, a default that may follow from others."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ocannl.base.errors import CodeError


@dataclass(frozen=True, slots=True, repr=False)
class Default:
    """A default computed from what the arguments of `of` are called after: inputs, with their types and shapes, or
    settings."""

    of: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.of).parameters)

    def __repr__(self) -> str:
        return f"<follows {', '.join(self.names)}>"


def follows(of: Callable[..., Any]) -> Any:
    """A default that is computed from other inputs and settings."""
    if not inspect.isfunction(of):
        raise CodeError(f"a default follows by a function, called with what its arguments name; not by {of!r}")
    return Default(of)


@dataclass(frozen=True, slots=True)
class Setting:
    """A keyword of an operation. `kind` is its annotation: a type, a union, or `Literal[...]` of the allowed values."""

    kind: Any = Any
    default: Any = inspect.Parameter.empty
    doc: str = ""

    def parameter(self, name: str) -> inspect.Parameter:
        annotation = inspect.Parameter.empty if self.kind is Any else self.kind
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=self.default, annotation=annotation)


NUMBERS: dict[type, type] = {int: numbers.Integral, float: numbers.Real, complex: numbers.Complex}
"""A number of a narrower type, NumPy's too, is one of the wider; truth values are none."""


def fits(value: object, kind: Any) -> bool:
    """Whether an annotation allows a value; what cannot be told from the value is allowed."""
    if kind is Any:
        return True
    if kind is None:
        return value is None
    origin = get_origin(kind)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in get_args(kind))
    kind = origin or kind
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def kind_text(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    return inspect.formatannotation(kind)


def resolve(given: dict[str, Any], title: str) -> dict[str, Any]:
    """What was given or is the default; defaults that follow from others are computed in the order that they need."""
    known = {name: value for name, value in given.items() if not isinstance(value, Default)}
    waiting: Mapping[str, Default] = {name: value for name, value in given.items() if isinstance(value, Default)}
    while waiting:
        ready = {name: d for name, d in waiting.items() if all(n in known for n in d.names)}
        if not ready:
            raise CodeError(f"`{title}`: the defaults of {', '.join(f'`{n}`' for n in waiting)} wait for each other")
        known |= {name: d.of(*(known[n] for n in d.names)) for name, d in ready.items()}
        waiting = {name: d for name, d in waiting.items() if name not in ready}
    return {name: known[name] for name in given}

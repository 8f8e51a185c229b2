"""Settings of an operation: their types, allowed values, and defaults computed from other arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.annotations import fits, kind_text
from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.declare.inputs import Count, require_types


@dataclass(frozen=True, slots=True, repr=False)
class Default:
    """A default computed from the inputs and settings that the parameters of `compute` name."""

    compute: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.compute).parameters)

    def __repr__(self) -> str:
        return f"<follows {', '.join(self.names)}>"


def follows(compute: Callable[..., Any]) -> Any:
    """A default computed from other inputs and settings, which the parameters of `compute` name."""
    if not inspect.isfunction(compute):
        raise CodeError(f"declare.follows takes a function of inputs and settings, not {compute!r}")
    return Default(compute)


@public_class(exclude=("check", "converted", "parameter"))
@dataclass(frozen=True, slots=True)
class Setting:
    """A keyword of an operation. `kind` is its annotation: a type, a union, or `Literal[...]` of the allowed values;
    `count` is the number of items of a list."""

    kind: Any = Any
    default: Any = inspect.Parameter.empty
    doc: str = ""
    count: Count | None = None

    def __post_init__(self) -> None:
        require_types(self, doc=str, count=Count | None)

    def parameter(self, name: str) -> inspect.Parameter:
        annotation = inspect.Parameter.empty if self.kind is Any else self.kind
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=self.default, annotation=annotation)

    def converted(self, value: object) -> Any:
        """The value with the numbers of Python, and a list where a list is declared."""
        return as_declared(python_numbers(value), self.kind)

    def check(self, title: str, name: str, value: object) -> None:
        """Raises: CodeError for a value of another type, or a list of another length."""
        if not fits(value, self.kind):
            raise CodeError(f"`{title}`: {name}={value!r} is not {kind_text(self.kind)}")
        if self.count is not None and isinstance(value, list | tuple) and not self.count.allows(len(value)):
            raise CodeError(f"`{title}`: {name}={value!r} has {len(value)} items, not {self.count}")


def python_numbers(value: object) -> object:
    """The value with NumPy's numbers, also those in a list or tuple, as Python's, which formulas and specs hold."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is list:
        return [python_numbers(item) for item in value]
    return tuple([python_numbers(item) for item in value]) if type(value) is tuple else value


def as_declared(value: object, kind: Any) -> object:
    """A tuple as a list, a list as a tuple, and an array as either, where only that matches the annotation."""
    if not isinstance(value, list | tuple | np.ndarray) or fits(value, kind):
        return value
    items = value.tolist() if isinstance(value, np.ndarray) else value
    return next((nested for nested in (_nested(items, list), _nested(items, tuple)) if fits(nested, kind)), value)


def _nested(value: object, sequence: type[list[Any]] | type[tuple[Any, ...]]) -> object:
    return sequence(_nested(item, sequence) for item in value) if isinstance(value, list | tuple) else value


def resolve_defaults(values: dict[str, Any], title: str) -> dict[str, Any]:
    """Evaluates computed defaults in dependence order (topological sort). Raises: CodeError for a cycle."""
    resolved = {name: value for name, value in values.items() if not isinstance(value, Default)}
    waiting: Mapping[str, Default] = {name: value for name, value in values.items() if isinstance(value, Default)}
    while waiting:
        ready = {name: d for name, d in waiting.items() if all(n in resolved for n in d.names)}
        if not ready:
            raise CodeError(f"`{title}`: the defaults of {', '.join(f'`{n}`' for n in waiting)} depend on each other")
        resolved |= {name: d.compute(*(resolved[n] for n in d.names)) for name, d in ready.items()}
        waiting = {name: d for name, d in waiting.items() if name not in ready}
    return {name: resolved[name] for name in values}

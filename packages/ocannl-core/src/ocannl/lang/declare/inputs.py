"""Inputs of an operation: the data types that they accept, and the number of tensors of an input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ocannl.base.annotations import readable
from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import PRECISIONS, Family, Precision

KINDS: dict[str, Callable[[Precision], bool]] = {
    "any": lambda p: True,
    "float": lambda p: p.is_float,
    "int": lambda p: p.family in (Family.SIGNED, Family.UNSIGNED),
    "signed": lambda p: p.family is Family.SIGNED,
    "unsigned": lambda p: p.family is Family.UNSIGNED,
    "bool": lambda p: p.family is Family.BOOL,
} | {p.name: lambda p, expected=p: p is expected for p in PRECISIONS if p.name != "bool"}
"""Predicates of the classes of data types, including one for each single type."""


@public_class(exclude=("allows",))
@dataclass(frozen=True, slots=True)
class Count:
    """A range of arities; `maximum` is None for an unbounded range."""

    minimum: int
    maximum: int | None

    def __post_init__(self) -> None:
        require_types(self, minimum=int, maximum=int | None)
        if not 0 <= self.minimum <= (self.minimum if self.maximum is None else self.maximum):
            raise CodeError(f"a count cannot be {self.minimum} to {self.maximum}")

    def allows(self, number: int) -> bool:
        return self.minimum <= number and (self.maximum is None or number <= self.maximum)

    def __str__(self) -> str:
        if self.minimum == self.maximum:
            return f"exactly {self.minimum}"
        if self.maximum is None:
            return f"at least {self.minimum}" if self.minimum else "any number"
        return f"{self.minimum} to {self.maximum}" if self.minimum else f"at most {self.maximum}"


def require_types(declared: object, **kinds: Any) -> None:
    """Raises: ArgumentError for a field of a declaration that is of another type."""
    for name, kind in kinds.items():
        value = getattr(declared, name)
        if not isinstance(value, kind):
            title = type(declared).__name__
            raise ArgumentError(f"declare.{title}: `{name}` is {readable(kind)}, not {value!r}"[:200])


ANY_NUMBER = Count(0, None)


def exactly(number: int) -> Count:
    return Count(number, number)


def at_least(number: int) -> Count:
    return Count(number, None)


def at_most(number: int) -> Count:
    return Count(0, number)


def between(minimum: int, maximum: int) -> Count:
    return Count(minimum, maximum)


@public_class(exclude=("accepts", "has_gradient", "is_list", "kinds"))
@dataclass(frozen=True, slots=True)
class Input:
    """One input of an operation.

    `kind` is a class of data types, or a union such as `int | bool`. With a `count` other than `exactly(1)` the input
    is a list of tensors, or `*xs`. An input that is not `differentiable` receives no gradient. A parameter with the
    default None is an optional input.
    """

    kind: str = "any"
    count: Count | None = None
    differentiable: bool = True
    doc: str = ""

    def __post_init__(self) -> None:
        require_types(self, kind=str, count=Count | None, doc=str)
        for kind in self.kinds:
            if kind not in KINDS:
                raise CodeError(f"{kind!r} is not a class of types; the classes are {', '.join(KINDS)}")

    @property
    def kinds(self) -> list[str]:
        return [kind.strip() for kind in self.kind.split("|")]

    @property
    def is_list(self) -> bool:
        return self.count is not None and self.count != exactly(1)

    def accepts(self, precision: Precision) -> bool:
        return any(KINDS[kind](precision) for kind in self.kinds)

    @property
    def has_gradient(self) -> bool:
        """Whether the gradient rule must add to the gradient of this input."""
        return self.differentiable and any(self.accepts(p) for p in PRECISIONS if p.is_float)


def as_input(value: object) -> Input:
    """Converts a class of data types to an `Input`."""
    if isinstance(value, Input):
        return value
    if isinstance(value, str):
        return Input(value)
    raise CodeError(f"an input is declared by a class of types such as 'float', or a declare.Input, not {value!r}")

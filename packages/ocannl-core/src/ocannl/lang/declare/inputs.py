"""What an operation is applied to: the types that an input may have, and how many tensors `*xs` may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ocannl.base.errors import CodeError
from ocannl.ir.precision import PRECISIONS, Family, Precision

KINDS: dict[str, Callable[[Precision], bool]] = {
    "any": lambda p: True,
    "float": lambda p: p.is_float,
    "int": lambda p: p.family in (Family.SIGNED, Family.UNSIGNED),
    "signed": lambda p: p.family is Family.SIGNED,
    "unsigned": lambda p: p.family is Family.UNSIGNED,
    "bool": lambda p: p.family is Family.BOOL,
} | {p.name: lambda p, own=p: p is own for p in PRECISIONS if p.name != "bool"}
"""Classes of types, and each type as a class of its own."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many; `most` is None where there is no end."""

    least: int
    most: int | None

    def __post_init__(self) -> None:
        if not 0 <= self.least <= (self.least if self.most is None else self.most):
            raise CodeError(f"no number of tensors is {self.least} to {self.most}")

    def holds(self, number: int) -> bool:
        return self.least <= number and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        if self.least == self.most:
            return f"exactly {self.least}"
        if self.most is None:
            return f"at least {self.least}" if self.least else "any number"
        return f"{self.least} to {self.most}" if self.least else f"at most {self.most}"


ANY_NUMBER = Count(0, None)


def exactly(number: int) -> Count:
    return Count(number, number)


def at_least(number: int) -> Count:
    return Count(number, None)


def at_most(number: int) -> Count:
    return Count(0, number)


def between(least: int, most: int) -> Count:
    return Count(least, most)


@dataclass(frozen=True, slots=True)
class Input:
    """One input: `kind` is a class of types, or several as `int | bool`; `count` is for inputs such as `*xs`; one that
    is not `differentiable` receives no gradient."""

    kind: str = "any"
    count: Count = ANY_NUMBER
    differentiable: bool = True
    doc: str = ""

    def __post_init__(self) -> None:
        for word in self.words:
            if word not in KINDS:
                raise CodeError(f"{word!r} is no class of types; there are {', '.join(KINDS)}")

    @property
    def words(self) -> list[str]:
        return [word.strip() for word in self.kind.split("|")]

    def takes(self, precision: Precision) -> bool:
        return any(KINDS[word](precision) for word in self.words)

    @property
    def has_gradient(self) -> bool:
        """A gradient is owed to it."""
        return self.differentiable and any(self.takes(p) for p in PRECISIONS if p.is_float)


def input_of(given: object) -> Input:
    """An input, or the class of its types alone."""
    if isinstance(given, Input):
        return given
    if isinstance(given, str):
        return Input(given)
    raise CodeError(f"an input is declared by a class of types such as 'float', or a declare.Input, not {given!r}")

"""What must hold between the inputs and settings of an operation.

    Condition = same_type | same_shape | broadcastable | Quantity (< <= == != >= >) Quantity
              | Condition & Condition | Condition | Condition | ~Condition | all_of | any_of
    Quantity  = rank(x) | size(x, axis) | count(xs) | value(setting) | number | Quantity (+ - * // %) Quantity

Each is three-valued: sizes that inference has not found yet make it unknown, and it is asked again once they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ocannl.base.errors import CodeError, DtypeError, OcannlError, ShapeError

Arguments = Mapping[str, Any]
"""Inputs, as tensors or tuples of them, and settings, by name."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`test` gives None while that is unknown; `names` are the inputs and settings that it is about."""

    words: str
    names: tuple[str, ...]
    test: Callable[[Arguments], bool | None]
    error: type[OcannlError] = ShapeError
    fix: str = ""

    def says(self, fix: str) -> Condition:
        """The same, with what to do where it does not hold."""
        return replace(self, fix=fix)

    def __and__(self, other: Condition) -> Condition:
        return all_of(self, other)

    def __or__(self, other: Condition) -> Condition:
        return any_of(self, other)

    def __invert__(self) -> Condition:
        test = self.test
        return replace(self, words=f"not ({self.words})", test=lambda facts: _not(test(facts)), fix="")

    def __bool__(self) -> bool:
        raise CodeError("conditions are joined by & | ~, and compared pair by pair; their truth is known at a call")


def all_of(*conditions: Condition) -> Condition:
    """Every one holds."""
    return _joined(" and ", conditions, lambda found: _not(_any(map(_not, found))))


def any_of(*conditions: Condition) -> Condition:
    """At least one holds."""
    return _joined(" or ", conditions, _any)


Joint = Callable[[Iterator[bool | None]], bool | None]


def _joined(word: str, parts: tuple[Condition, ...], joint: Joint) -> Condition:
    if not parts or not all(isinstance(part, Condition) for part in parts):
        raise CodeError(f"joined are conditions, at least one; not {', '.join(map(repr, parts)) or 'nothing'}")
    words = word.join(f"({p.words})" if " and " in p.words or " or " in p.words else p.words for p in parts)
    names = tuple(dict.fromkeys(name for p in parts for name in p.names))
    fix = next((p.fix for p in parts if p.fix), "")
    return Condition(words, names, lambda facts: joint(p.test(facts) for p in parts), parts[0].error, fix)


def _not(found: bool | None) -> bool | None:
    return None if found is None else not found


def _any(found: Iterator[bool | None]) -> bool | None:
    answers = list(found)
    return True if True in answers else None if None in answers else False


# --- about several inputs --------------------------------------------------------------------------------------------


def same_type(*names: str) -> Condition:
    """All have one data type; mere numbers have every one."""

    def test(facts: Arguments) -> bool:
        return len({t.typing.known for t in _tensors(facts, names) if t.literal is None and not t.typing.is_open}) <= 1

    return Condition(f"same_type({', '.join(names)})", names, test, DtypeError)


def same_shape(*names: str) -> Condition:
    """All have the same rows of the same sizes."""
    return _of_shapes("same_shape", names, lambda rows: all(a == b for a, b in pairwise(rows)))


def broadcastable(*names: str) -> Condition:
    """Row by row and from the last axis on, sizes agree or are 1."""

    def fit(rows: list[tuple[Row, ...]]) -> bool:
        for row in zip(*rows, strict=True):
            for at in range(1, max(map(len, row)) + 1):
                if len({sizes[-at] for sizes in row if len(sizes) >= at} - {1}) > 1:
                    return False
        return True

    return _of_shapes("broadcastable", names, fit)


Row = tuple[int, ...]


def _of_shapes(word: str, names: tuple[str, ...], fit: Callable[[list[tuple[Row, ...]]], bool]) -> Condition:
    def test(facts: Arguments) -> bool | None:
        tensors = _tensors(facts, names)
        return fit([_rows(t) for t in tensors]) if all(t.handle.is_solved for t in tensors) else None

    return Condition(f"{word}({', '.join(names)})", names, test)


def _rows(t: Any) -> tuple[Row, ...]:
    return tuple(tuple(axis.size for axis in row) for row in (t.shape.batch, t.shape.input, t.shape.output))


def _tensors(facts: Arguments, names: tuple[str, ...]) -> list[Any]:
    found = [(name, t) for name in names for t in (facts[name] if isinstance(facts[name], tuple) else (facts[name],))]
    for name, t in found:
        if not hasattr(t, "handle"):
            raise CodeError(f"`{name}` is a setting, and has no axes or type of data: ask declare.value({name!r})")
    return [t for _, t in found]


# --- numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number known at a call; `of` gives None while it is unknown."""

    words: str
    names: tuple[str, ...]
    of: Callable[[Arguments], Any]
    error: type[OcannlError] = ShapeError

    def __lt__(self, other: object) -> Condition:
        return _compare(self, "<", other)

    def __le__(self, other: object) -> Condition:
        return _compare(self, "<=", other)

    def __gt__(self, other: object) -> Condition:
        return _compare(self, ">", other)

    def __ge__(self, other: object) -> Condition:
        return _compare(self, ">=", other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return _compare(self, "==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return _compare(self, "!=", other)

    def __add__(self, other: object) -> Quantity:
        return _compute(self, "+", other)

    def __sub__(self, other: object) -> Quantity:
        return _compute(self, "-", other)

    def __mul__(self, other: object) -> Quantity:
        return _compute(self, "*", other)

    def __floordiv__(self, other: object) -> Quantity:
        return _compute(self, "//", other)

    def __mod__(self, other: object) -> Quantity:
        return _compute(self, "%", other)

    __hash__ = object.__hash__


SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


def rank(name: str) -> Quantity:
    """How many axes an input has."""
    return Quantity(f"rank({name})", (name,), lambda facts: _sizes(facts, name, len))


def size(name: str, axis: int) -> Quantity:
    """How long axis `axis` of an input is, in memory order: batch, output, input; from the end where negative."""

    def at(dims: tuple[int, ...]) -> int:
        return dims[axis] if -len(dims) <= axis < len(dims) else -1  # of an axis that is not there, nothing holds

    return Quantity(f"size({name}, {axis})", (name,), lambda facts: _sizes(facts, name, at))


def count(name: str) -> Quantity:
    """How many tensors an input `*xs` is."""

    def of(facts: Arguments) -> int:
        if not isinstance(facts[name], tuple):
            raise CodeError(f"`{name}` is no number of tensors; counted are inputs such as `*{name}`")
        return len(facts[name])

    return Quantity(f"count({name})", (name,), of, CodeError)


def value(name: str) -> Quantity:
    """What a setting is."""

    def of(facts: Arguments) -> Any:
        if isinstance(facts[name], tuple) or hasattr(facts[name], "handle"):
            raise CodeError(f"`{name}` is an input, and its value is not known before code runs")
        return facts[name]

    return Quantity(name, (name,), of, CodeError)


def _sizes(facts: Arguments, name: str, of: Callable[[tuple[int, ...]], int]) -> int | None:
    if isinstance(facts[name], tuple):
        raise CodeError(f"`{name}` is any number of tensors; rank and size are those of one")
    (t,) = _tensors(facts, (name,))
    return of(t.dims) if t.handle.is_solved else None


def _operand(given: object) -> Quantity:
    if isinstance(given, Quantity):
        return given
    return Quantity(repr(given), (), lambda facts: given, CodeError)


def _both(left: Quantity, sign: str, given: object) -> Quantity:
    right = _operand(given)

    def of(facts: Arguments) -> Any:
        x, y = left.of(facts), right.of(facts)
        try:
            return None if x is None or y is None else SIGNS[sign](x, y)
        except (TypeError, ArithmeticError) as wrong:
            raise CodeError(f"{left.words} {sign} {right.words} cannot be told of {x!r} and {y!r}: {wrong}") from None

    error = ShapeError if ShapeError in (left.error, right.error) else left.error
    names = tuple(dict.fromkeys((*left.names, *right.names)))
    return Quantity(f"{left.words} {sign} {right.words}", names, of, error)


def _compare(left: Quantity, sign: str, right: object) -> Condition:
    both = _both(left, sign, right)
    return Condition(both.words, both.names, both.of, both.error)


def _compute(left: Quantity, sign: str, right: object) -> Quantity:
    both = _both(left, sign, right)
    return replace(both, words=f"({both.words})")

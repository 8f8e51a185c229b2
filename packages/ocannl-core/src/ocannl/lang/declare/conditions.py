"""Conditions on the inputs and settings of an operation.

    Condition = same_type | same_shape | broadcastable | Quantity (< <= == != >= >) Quantity
              | Condition & Condition | Condition | Condition | ~Condition | all_of | any_of
    Quantity  = rank(x) | size(x, axis) | count(xs) | value(setting) | number | Quantity (+ - * // %) Quantity

Conditions use Kleene's three-valued logic: a size that inference has not solved yet makes a condition unknown, and the
condition is evaluated again once the size is solved.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ocannl.base.errors import CodeError, DtypeError, OcannlError, ShapeError

Arguments = Mapping[str, Any]
"""The inputs of one call (tensors, or tuples of tensors) and its settings, by name."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate over `names`, inputs and settings of an operation; `test` returns None while the truth is unknown."""

    text: str
    names: tuple[str, ...]
    test: Callable[[Arguments], bool | None]
    error: type[OcannlError] = ShapeError
    fix: str = ""

    def says(self, fix: str) -> Condition:
        """Returns this condition with advice for error messages."""
        return replace(self, fix=fix)

    def __and__(self, other: Condition) -> Condition:
        return all_of(self, other)

    def __or__(self, other: Condition) -> Condition:
        return any_of(self, other)

    def __invert__(self) -> Condition:
        test = self.test
        return replace(self, text=f"not ({self.text})", test=lambda arguments: _negation(test(arguments)), fix="")

    def __bool__(self) -> bool:
        raise CodeError("conditions have no truth value before a call; combine them with & | ~, and compare pairs")


def all_of(*conditions: Condition) -> Condition:
    """Conjunction."""
    return _join(" and ", conditions, lambda truths: _negation(_disjunction(map(_negation, truths))))


def any_of(*conditions: Condition) -> Condition:
    """Disjunction."""
    return _join(" or ", conditions, _disjunction)


Connective = Callable[[Iterator[bool | None]], bool | None]


def _join(conjunction: str, conditions: tuple[Condition, ...], connective: Connective) -> Condition:
    if not conditions or not all(isinstance(c, Condition) for c in conditions):
        listed = ", ".join(map(repr, conditions)) or "nothing"
        raise CodeError(f"all_of and any_of take one or more conditions, not {listed}")
    text = conjunction.join(f"({c.text})" if " and " in c.text or " or " in c.text else c.text for c in conditions)
    names = tuple(dict.fromkeys(name for c in conditions for name in c.names))
    fix = next((c.fix for c in conditions if c.fix), "")

    def test(arguments: Arguments) -> bool | None:
        return connective(c.test(arguments) for c in conditions)

    return Condition(text, names, test, conditions[0].error, fix)


def _negation(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _disjunction(truths: Iterator[bool | None]) -> bool | None:
    values = list(truths)
    return True if True in values else None if None in values else False


# --- several inputs --------------------------------------------------------------------------------------------------


def same_type(*names: str) -> Condition:
    """All operands have the same data type; Python numbers match any type."""

    def test(arguments: Arguments) -> bool:
        typed = [t for t in _tensors(arguments, names) if t.literal is None and not t.typing.is_open]
        return len({t.typing.current for t in typed}) <= 1

    return Condition(f"same_type({', '.join(names)})", names, test, DtypeError)


def same_shape(*names: str) -> Condition:
    """All operands have the same axes of the same sizes, row by row."""
    return _shape_condition("same_shape", names, lambda rows: all(a == b for a, b in pairwise(rows)))


def broadcastable(*names: str) -> Condition:
    """Aligned at the last axis of each row, sizes are equal or 1."""

    def fit(rows: list[tuple[RowSizes, ...]]) -> bool:
        for row in zip(*rows, strict=True):
            for axis in range(1, max(map(len, row)) + 1):
                if len({sizes[-axis] for sizes in row if len(sizes) >= axis} - {1}) > 1:
                    return False
        return True

    return _shape_condition("broadcastable", names, fit)


RowSizes = tuple[int, ...]


def _shape_condition(name: str, names: tuple[str, ...], fit: Callable[[list[tuple[RowSizes, ...]]], bool]) -> Condition:
    def test(arguments: Arguments) -> bool | None:
        tensors = _tensors(arguments, names)
        return fit([_rows(t) for t in tensors]) if all(t.handle.is_solved for t in tensors) else None

    return Condition(f"{name}({', '.join(names)})", names, test)


def _rows(t: Any) -> tuple[RowSizes, ...]:
    return tuple(tuple(axis.size for axis in row) for row in (t.shape.batch, t.shape.input, t.shape.output))


def _tensors(arguments: Arguments, names: tuple[str, ...]) -> list[Any]:
    tensors = []
    for name in names:
        operand = arguments[name]
        tensors += [(name, t) for t in (operand if isinstance(operand, tuple) else (operand,))]
    for name, t in tensors:
        if not hasattr(t, "handle"):
            raise CodeError(f"`{name}` is a setting, and has no axes or data type: use declare.value({name!r})")
    return [t for _, t in tensors]


# --- numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number determined by the arguments of a call; `evaluate` returns None while it is unknown."""

    text: str
    names: tuple[str, ...]
    evaluate: Callable[[Arguments], Any]
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


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


def rank(name: str) -> Quantity:
    """The number of axes of an input."""
    return Quantity(f"rank({name})", (name,), lambda arguments: _sizes(arguments, name, len))


def size(name: str, axis: int) -> Quantity:
    """The size of an axis of an input, in memory order (batch, output, input); negative axes count from the end."""

    def at(dims: tuple[int, ...]) -> int:
        return dims[axis] if -len(dims) <= axis < len(dims) else -1  # a missing axis equals no size

    return Quantity(f"size({name}, {axis})", (name,), lambda arguments: _sizes(arguments, name, at))


def count(name: str) -> Quantity:
    """The number of tensors passed to a variadic input `*xs`."""

    def evaluate(arguments: Arguments) -> int:
        if not isinstance(arguments[name], tuple):
            raise CodeError(f"`{name}` is one tensor; declare.count is for variadic inputs such as `*{name}`")
        return len(arguments[name])

    return Quantity(f"count({name})", (name,), evaluate, CodeError)


def value(name: str) -> Quantity:
    """The value of a setting."""

    def evaluate(arguments: Arguments) -> Any:
        if isinstance(arguments[name], tuple) or hasattr(arguments[name], "handle"):
            raise CodeError(f"`{name}` is an input, and its value is not known before code runs")
        return arguments[name]

    return Quantity(name, (name,), evaluate, CodeError)


def _sizes(arguments: Arguments, name: str, measure: Callable[[tuple[int, ...]], int]) -> int | None:
    if isinstance(arguments[name], tuple):
        raise CodeError(f"`{name}` is a variadic input; declare.rank and declare.size are for one tensor")
    (t,) = _tensors(arguments, (name,))
    return measure(t.dims) if t.handle.is_solved else None


def _as_quantity(operand: object) -> Quantity:
    if isinstance(operand, Quantity):
        return operand
    return Quantity(repr(operand), (), lambda arguments: operand, CodeError)


def _binary(left: Quantity, sign: str, operand: object) -> Quantity:
    right = _as_quantity(operand)

    def evaluate(arguments: Arguments) -> Any:
        x, y = left.evaluate(arguments), right.evaluate(arguments)
        try:
            return None if x is None or y is None else OPERATORS[sign](x, y)
        except (TypeError, ArithmeticError) as cause:
            raise CodeError(f"{left.text} {sign} {right.text} is undefined for {x!r} and {y!r}: {cause}") from None

    error = ShapeError if ShapeError in (left.error, right.error) else left.error
    names = tuple(dict.fromkeys((*left.names, *right.names)))
    return Quantity(f"{left.text} {sign} {right.text}", names, evaluate, error)


def _compare(left: Quantity, sign: str, right: object) -> Condition:
    quantity = _binary(left, sign, right)
    return Condition(quantity.text, quantity.names, quantity.evaluate, quantity.error)


def _compute(left: Quantity, sign: str, right: object) -> Quantity:
    quantity = _binary(left, sign, right)
    return replace(quantity, text=f"({quantity.text})")

"""Conditions on the inputs and settings of an operation.

    Condition = same_type | same_shape | broadcastable | given | Quantity (< <= == != >= >) Quantity
              | Condition & Condition | Condition | Condition | ~Condition | all_of | any_of

Conditions use Kleene's three-valued logic: a size that inference has not solved yet makes a condition unknown, and the
condition is evaluated again once the size is solved. A condition on an optional input that a call omits is skipped.

A condition is also a tree of tuples, from which other checks can be generated: `(">=", ("rank", "x"), 1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ocannl.base.errors import CodeError, DtypeError, OcannlError, ShapeError
from ocannl.base.traceback_filtering import public_class

Arguments = Mapping[str, Any]
"""The inputs of one call (tensors, tuples of tensors, or None) and its settings, by name."""

ConditionTree = tuple[Any, ...]
"""An operator and its operands: trees, names of inputs and settings, or constants."""


class AbsentInput(Exception):
    """Raised by conditions on an optional input that the call omits."""


@public_class()
@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate over `names`, inputs and settings of an operation; `test` returns None while the truth is unknown."""

    text: str
    names: tuple[str, ...]
    test: Callable[[Arguments], bool | None]
    error: type[OcannlError] = ShapeError
    fix: str = ""
    tree: ConditionTree = ()

    def says(self, fix: str) -> Condition:
        """Returns this condition with advice for error messages."""
        if not isinstance(fix, str):
            raise CodeError(f"condition.says takes a text, not {fix!r}"[:200])
        return replace(self, fix=fix)

    def __and__(self, other: Condition) -> Condition:
        return all_of(self, other)

    def __or__(self, other: Condition) -> Condition:
        return any_of(self, other)

    def __invert__(self) -> Condition:
        test, text = self.test, f"({self.text})" if " " in self.text else self.text
        negated = replace(self, text=f"not {text}", test=lambda arguments: _negation(test(arguments)), fix="")
        return replace(negated, tree=("not", self.tree))

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

    tree = (conjunction.strip(), *(c.tree for c in conditions))
    return Condition(text, names, test, conditions[0].error, fix, tree)


def _negation(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _disjunction(truths: Iterator[bool | None]) -> bool | None:
    is_unknown = False
    for truth in truths:
        if truth:
            return True
        is_unknown |= truth is None
    return None if is_unknown else False


# --- several inputs --------------------------------------------------------------------------------------------------


def same_type(*names: str) -> Condition:
    """All operands have the same data type; Python numbers match any type."""

    def test(arguments: Arguments) -> bool:
        typed = [t for t in tensors_of(arguments, names) if t.literal is None and not t.typing.is_open]
        return len({t.typing.current for t in typed}) <= 1

    return Condition(f"same_type({', '.join(names)})", names, test, DtypeError, tree=("same_type", *names))


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
        tensors = tensors_of(arguments, names)
        return fit([_rows(t) for t in tensors]) if all(t.handle.is_solved for t in tensors) else None

    return Condition(f"{name}({', '.join(names)})", names, test, tree=(name, *names))


def _rows(t: Any) -> tuple[RowSizes, ...]:
    return tuple(tuple(axis.size for axis in row) for row in (t.shape.batch, t.shape.input, t.shape.output))


def tensors_of(arguments: Arguments, names: tuple[str, ...]) -> list[Any]:
    """The tensors of inputs. Raises: CodeError for settings, AbsentInput."""
    tensors = []
    for name in names:
        operand = arguments[name]
        if operand is None:
            raise AbsentInput(name)
        tensors += [(name, t) for t in (operand if isinstance(operand, tuple) else (operand,))]
    for name, t in tensors:
        if not hasattr(t, "handle"):
            raise CodeError(f"`{name}` is a setting, and has no axes or data type: use declare.value({name!r})")
    return [t for _, t in tensors]


def given(name: str) -> Condition:
    """A call passes an optional input, or a setting other than None."""
    text = f"given({name})"
    return Condition(text, (name,), lambda arguments: arguments[name] is not None, CodeError, "", ("given", name))

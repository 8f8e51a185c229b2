"""Numbers determined by the arguments of a call, which conditions compare.

    Quantity = rank(x) | size(x, axis) | count(xs) | value(setting) | value(setting)[n] | each(setting) | number
             | Quantity (+ - * // %) Quantity
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ocannl.base.errors import CodeError, OcannlError, ShapeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.declare.conditions import Arguments, Condition, tensors_of


@public_class()
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number determined by the arguments of a call; `evaluate` returns None while it is unknown."""

    text: str
    names: tuple[str, ...]
    evaluate: Callable[[Arguments], Any]
    error: type[OcannlError] = ShapeError
    tree: Any = None

    def __getitem__(self, position: int) -> Quantity:
        """An item of a setting that is a list; negative positions count from the end."""
        if not isinstance(position, int):
            raise CodeError(f"an item of {self.text} has an integer as its position, not {position!r}"[:200])

        def evaluate(arguments: Arguments) -> Any:
            items = self.evaluate(arguments)
            try:
                return None if items is None else items[position]
            except (TypeError, IndexError) as cause:
                raise CodeError(f"{self.text}[{position}] is undefined for {items!r}: {cause}") from None

        return Quantity(f"{self.text}[{position}]", self.names, evaluate, self.error, ("item", self.tree, position))

    __iter__ = None  # an item does not make a list

    def __lt__(self, operand: object) -> Condition:
        return _compare(self, "<", operand)

    def __le__(self, operand: object) -> Condition:
        return _compare(self, "<=", operand)

    def __gt__(self, operand: object) -> Condition:
        return _compare(self, ">", operand)

    def __ge__(self, operand: object) -> Condition:
        return _compare(self, ">=", operand)

    def __eq__(self, operand: object) -> Condition:  # type: ignore[override]
        return _compare(self, "==", operand)

    def __ne__(self, operand: object) -> Condition:  # type: ignore[override]
        return _compare(self, "!=", operand)

    def __add__(self, operand: object) -> Quantity:
        return _compute(self, "+", operand)

    def __sub__(self, operand: object) -> Quantity:
        return _compute(self, "-", operand)

    def __mul__(self, operand: object) -> Quantity:
        return _compute(self, "*", operand)

    def __floordiv__(self, operand: object) -> Quantity:
        return _compute(self, "//", operand)

    def __mod__(self, operand: object) -> Quantity:
        return _compute(self, "%", operand)

    def __radd__(self, operand: object) -> Quantity:
        return _compute(_as_quantity(operand), "+", self)

    def __rsub__(self, operand: object) -> Quantity:
        return _compute(_as_quantity(operand), "-", self)

    def __rmul__(self, operand: object) -> Quantity:
        return _compute(_as_quantity(operand), "*", self)

    def __rfloordiv__(self, operand: object) -> Quantity:
        return _compute(_as_quantity(operand), "//", self)

    def __rmod__(self, operand: object) -> Quantity:
        return _compute(_as_quantity(operand), "%", self)

    def __neg__(self) -> Quantity:
        return 0 - self

    def __truediv__(self, operand: object) -> NoReturn:
        raise CodeError("quantities have no `/`: write `//`, or multiply both sides of the comparison")

    __rtruediv__ = __truediv__

    def __bool__(self) -> NoReturn:
        raise CodeError(f"{self.text} has no value before a call; compare it, as in {self.text} > 0")

    __hash__ = object.__hash__


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


def rank(name: str) -> Quantity:
    """The number of axes of an input."""
    return Quantity(f"rank({name})", (name,), lambda arguments: _sizes(arguments, name, len), tree=("rank", name))


def size(name: str, axis: int) -> Quantity:
    """The size of an axis of an input, in memory order (batch, output, input); negative axes count from the end."""

    def at(dims: tuple[int, ...]) -> int:
        return dims[axis] if -len(dims) <= axis < len(dims) else -1  # a missing axis equals no size

    text, tree = f"size({name}, {axis})", ("size", name, axis)
    return Quantity(text, (name,), lambda arguments: _sizes(arguments, name, at), tree=tree)


def count(name: str) -> Quantity:
    """The number of tensors of an input that takes several, or of the items of a list."""

    def evaluate(arguments: Arguments) -> int:
        if not isinstance(arguments[name], tuple | list):
            raise CodeError(f"`{name}` is one value; declare.count is for lists, and for inputs such as `*{name}`")
        return len(arguments[name])

    return Quantity(f"count({name})", (name,), evaluate, CodeError, ("count", name))


def value(name: str) -> Quantity:
    """The value of a setting, or of a field of a configuration: `value("window.stride")`."""
    setting, *fields = name.split(".")

    def evaluate(arguments: Arguments) -> Any:
        result = arguments[setting]
        if any(hasattr(t, "handle") for t in (result if isinstance(result, tuple) else (result,))):
            raise CodeError(f"`{setting}` is an input, and its value is not known before code runs")
        for field in fields:
            if not hasattr(result, field):
                raise CodeError(f"`{setting}` has no field `{field}`: {result!r}")
            result = getattr(result, field)
        return result

    return Quantity(name, (setting,), evaluate, CodeError, ("value", name))


def each(name: str) -> Quantity:
    """All items of a setting that is a list, or its only value: `each("size") > 0` holds if it holds for every item."""
    quantity = value(name)

    def evaluate(arguments: Arguments) -> Any:
        items = quantity.evaluate(arguments)
        return Items(tuple(items) if isinstance(items, list | tuple) else (items,))

    return replace(quantity, text=f"each of {name}", evaluate=evaluate, tree=("each", ("value", name)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Items:
    """The items of a list, computed with one by one."""

    items: tuple[Any, ...]

    def __repr__(self) -> str:
        return repr(list(self.items))


def _sizes(arguments: Arguments, name: str, measure: Callable[[tuple[int, ...]], int]) -> int | None:
    if isinstance(arguments[name], tuple):
        raise CodeError(f"`{name}` takes several tensors; declare.rank and declare.size are for one tensor")
    (t,) = tensors_of(arguments, (name,))
    return measure(t.dims) if t.handle.is_solved else None


def _as_quantity(operand: object) -> Quantity:
    if isinstance(operand, Quantity):
        return operand
    return Quantity(repr(operand), (), lambda arguments: operand, CodeError, operand)


def _binary(left: Quantity, sign: str, operand: object) -> Quantity:
    right = _as_quantity(operand)

    def evaluate(arguments: Arguments) -> Any:
        x, y = left.evaluate(arguments), right.evaluate(arguments)
        try:
            return None if x is None or y is None else _apply(OPERATORS[sign], x, y)
        except (TypeError, ArithmeticError) as cause:
            raise CodeError(f"{left.text} {sign} {right.text} is undefined for {x!r} and {y!r}: {cause}") from None

    error = ShapeError if ShapeError in (left.error, right.error) else left.error
    names = tuple(dict.fromkeys((*left.names, *right.names)))
    return Quantity(f"{left.text} {sign} {right.text}", names, evaluate, error, (sign, left.tree, right.tree))


def _apply(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """The result for two numbers, or for each pair of items."""
    if not isinstance(x, Items) and not isinstance(y, Items):
        return function(x, y)
    lengths = {len(side.items) for side in (x, y) if isinstance(side, Items)}
    if len(lengths) > 1:
        raise TypeError(f"the lists have {' and '.join(map(str, sorted(lengths)))} items")
    (length,) = lengths
    xs, ys = (side.items if isinstance(side, Items) else (side,) * length for side in (x, y))
    return Items(tuple(map(function, xs, ys)))


def _compare(left: Quantity, sign: str, right: object) -> Condition:
    quantity = _binary(left, sign, right)

    def test(arguments: Arguments) -> bool | None:
        truth = quantity.evaluate(arguments)
        return all(truth.items) if isinstance(truth, Items) else truth

    return Condition(quantity.text, quantity.names, test, quantity.error, "", quantity.tree)


def _compute(left: Quantity, sign: str, right: object) -> Quantity:
    quantity = _binary(left, sign, right)
    return replace(quantity, text=f"({quantity.text})")

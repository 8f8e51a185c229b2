"""Operator overloading for tensors, symbols and captured sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, cast

import numpy as np

from ocannl.base import spelling
from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.ops.methods import Methods

Result = TypeVar("Result")
REGISTRY: dict[str, Callable[..., Any]] = {}
"""Every declared operation by name; filled by `lang.ops`, extensible by plugins."""


@public_class()
class Operators(Methods, Generic[Result]):
    """Operators build expressions, of type `Result`; conversions that need a value raise CodeError with the
    alternative."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: object, **options: object) -> Result:
        """A function of NumPy builds a tensor where an operation computes the same: np.exp(t), np.float64(2) * t."""
        name = ufunc.__name__
        if method == "__call__" and not options:
            if name in REFLECTED and not isinstance(operands[0], Operators):  # also an operator: NumPy calls both so
                result = getattr(self, REFLECTED[name])(operands[0])
                return cast("Result", name == "not_equal" if result is NotImplemented else result)  # as for any objects
            if (function := EQUIVALENTS.get(name, name)) in REGISTRY:
                return self._apply(function, *operands)
        raise ArgumentError(function_of_numpy(name, is_in_place="out" in options))

    def __add__(self, other: object) -> Result:
        return self._apply("add", self, other)

    def __radd__(self, other: object) -> Result:
        return self._apply("add", other, self)

    def __sub__(self, other: object) -> Result:
        return self._apply("sub", self, other)

    def __rsub__(self, other: object) -> Result:
        return self._apply("sub", other, self)

    def __mul__(self, other: object) -> Result:
        return self._apply("mul", self, other)

    def __rmul__(self, other: object) -> Result:
        return self._apply("mul", other, self)

    def __truediv__(self, other: object) -> Result:
        return self._apply("div", self, other)

    def __rtruediv__(self, other: object) -> Result:
        return self._apply("div", other, self)

    def __pow__(self, other: object) -> Result:
        return self._apply("pow", self, other)

    def __rpow__(self, other: object) -> Result:
        return self._apply("pow", other, self)

    def __mod__(self, other: object) -> Result:
        return self._apply("mod", self, other)

    def __rmod__(self, other: object) -> Result:
        return self._apply("mod", other, self)

    def __matmul__(self, other: object) -> Result:
        return self._apply("matmul", self, other)

    def __rmatmul__(self, other: object) -> Result:
        return self._apply("matmul", other, self)

    def __floordiv__(self, other: object) -> Result:
        raise ArgumentError("tensors have no `//`: write oc.floor(x / y)")

    def __divmod__(self, other: object) -> Result:
        raise ArgumentError("tensors have no `divmod`: write oc.floor(x / y) and x % y")

    def __lshift__(self, other: object) -> Result:
        raise ArgumentError("tensors have no `<<`: write oc.left_shift(x, y)")

    def __rshift__(self, other: object) -> Result:
        raise ArgumentError("tensors have no `>>`: write oc.right_shift(x, y)")

    def __xor__(self, other: object) -> Result:
        raise ArgumentError("tensors have no `^`: write oc.bitwise_xor(x, y), or x ** y for a power")

    __rfloordiv__, __rdivmod__, __rlshift__, __rrshift__, __rxor__ = (
        __floordiv__, __divmod__, __lshift__, __rshift__, __xor__,
    )  # fmt: skip

    def __round__(self, digits: int | None = None) -> Result:
        if digits:
            raise ArgumentError("tensors are rounded to integers: write (x * 10**digits).round() / 10**digits")
        return self._apply("round", self)

    def __lt__(self, other: object) -> Result:
        return self._apply("lt", self, other)

    def __le__(self, other: object) -> Result:
        return self._apply("le", self, other)

    def __gt__(self, other: object) -> Result:
        return self._apply("gt", self, other)

    def __ge__(self, other: object) -> Result:
        return self._apply("ge", self, other)

    def __and__(self, other: object) -> Result:
        return self._apply("and_", self, other)

    def __rand__(self, other: object) -> Result:
        return self._apply("and_", other, self)

    def __or__(self, other: object) -> Result:
        return self._apply("or_", self, other)

    def __ror__(self, other: object) -> Result:
        return self._apply("or_", other, self)

    def __neg__(self) -> Result:
        return self._apply("neg", self)

    def __pos__(self) -> Result:
        return self._apply("id", self)

    def __abs__(self) -> Result:
        return self._apply("abs", self)

    def __invert__(self) -> Result:
        return self._apply("not_", self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Operators) or not is_number_like(other):
            return self is other
        raise CodeError("`==` between tensors is identity; to compare values write oc.eq(a, b)")

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Operators) or not is_number_like(other):
            return self is not other
        raise CodeError("`!=` between tensors is identity; to compare values write oc.ne(a, b)")

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise CodeError("an expression has no truth value before it is run; use oc.where, or ctx.run and ctx[t]")

    def __len__(self) -> NoReturn:
        raise CodeError("a tensor has no length; its sizes are t.dims")

    def __iter__(self) -> NoReturn:
        fix = "write x[0], x[1], ... along a batch axis, or iterate over x.numpy()"
        raise ArgumentError(f"an expression is not iterated over: {fix}")

    def __contains__(self, value: object) -> NoReturn:
        fix = "write oc.eq(x, value).any(), or `value in x.numpy()`"
        raise ArgumentError(f"an expression has no value before it is run: {fix}")

    def __float__(self) -> NoReturn:
        raise CodeError("an expression has no value before it is run; use t.numpy(), or ctx.run and ctx[t]")

    __int__ = __complex__ = __float__

    def __format__(self, spec: str) -> str:
        if spec:
            raise CodeError(f"an expression has no value to print as {spec!r}; use t.numpy(), or ctx.run and ctx[t]")
        return str(self)

    def __index__(self) -> NoReturn:
        raise CodeError("a tensor cannot be an index; x[n] takes an int or a static symbol (oc.symbol)")

    def __copy__(self) -> NoReturn:
        raise CodeError("tensors cannot be copied; share them, or read values, as in ctx[t]")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise CodeError("tensors cannot be copied; share them, or read values, as in ctx[t]")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise CodeError("tensors cannot be pickled; save values by oc.save(path, ctx, t), or read them, as in ctx[t]")

    @property
    def T(self) -> Result:
        """The transpose: swaps the input and output rows."""
        return self._apply("transpose", self)

    def __getitem__(self, index: object) -> Result:
        """The slice of the leftmost batch axis at an int or a static symbol."""
        return self._apply("slice", self, index)

    def _apply(self, name: str, *operands: object) -> Result:
        return cast("Result", REGISTRY[name](*operands))


REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__", "divmod": "__rdivmod__", "remainder": "__rmod__", "power": "__rpow__",
    "matmul": "__rmatmul__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
    "equal": "__eq__", "not_equal": "__ne__", "bitwise_and": "__rand__", "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__", "left_shift": "__rlshift__", "right_shift": "__rrshift__",
}  # fmt: skip
"""The methods of operators of arrays, by the names of NumPy's functions."""

EQUIVALENTS = {**spelling.FUNCTIONS, "remainder": "mod", "positive": "id", "rint": "round"}
"""The operations that compute what functions of NumPy with other names do."""


def function_of_numpy(name: str, is_in_place: bool) -> str:
    """What to write instead of a function of NumPy that is called with an expression."""
    if is_in_place:
        return "an array holds no expression: write y = a + x for an expression, or a += x.numpy() for its value"
    answers = {**spelling.MODULE, **{function: f"write oc.{function}(...)" for function in REGISTRY}}
    written = f"{answers[name]}, or " if name in answers else ""
    return f"np.{name} computes arrays, and an expression has no value before it is run: {written}use x.numpy()"


def is_number_like(value: object) -> bool:
    return isinstance(value, int | float | complex | np.ndarray | np.generic)

"""Functions as formulas: steps of basic operations, which every backend writes out in its own language.

    exp(x)                                     t3 = fma(t2, 1.442695, 12583166)
      t1 = max(x, -104)                        t4 = t3 - 12583166
      t2 = min(t1, 89)                         ...

A formula computes the same wherever it stands, in lanes as in numbers one by one: nothing depends on the neighbours.
Bounds hold where `fma` rounds once; where it rounds twice, half a unit more may be lost. No step rounds to whole
numbers: adding 1.5 * 2**23 does, and leaves the whole number in the last bits of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from inspect import getdoc, signature
from itertools import count
from typing import Any

import numpy as np

from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import Precision, bool_, float32, uint32

Array = np.ndarray[Any, Any]
Number = int | float
Operand = str | Number  # a parameter, an earlier step, or a number
ROUND = 1.5 * 2**23
"""Added to a float32 and taken away, it rounds to whole numbers."""
TWICE = ROUND + 254
"""Its last bits are twice the bias of exponents."""
RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class Step:
    """`name = op(args)`, of operands of type `source`. The operations are primitive ones, `bits`, which takes the bits
    of a number of one type for a number of another, `cast`, and `scale(x, n)`, which is x * 2**n for whole n between
    -252 and 254, rounded once. What compares gives truth values, of type bool: the first operands of `where`."""

    name: str
    op: str
    args: tuple[Operand, ...]
    source: Precision
    precision: Precision


@dataclass(frozen=True, slots=True)
class Formula:
    """What an operation on float32 is. Where the step `beyond` is true, the function of the library is to be called."""

    name: str
    doc: str
    params: tuple[str, ...]
    steps: tuple[Step, ...]
    result: str
    beyond: str = ""

    @property
    def is_single(self) -> bool:
        """Whether all of its numbers have as many bytes as its result, and no library is called."""
        kinds = {step.precision for step in self.steps} - {bool_}
        return not self.beyond and all(kind.nbytes == float32.nbytes for kind in kinds)

    def numpy(self, *given: Array) -> Array:
        """The meaning; products that are added to are rounded."""
        values: dict[Operand, Array] = dict(zip(self.params, given, strict=True))
        with np.errstate(all="ignore"):
            for step in self.steps:
                args = [values[a] if isinstance(a, str) else np.asarray(a, step.source.numpy) for a in step.args]
                match step.op:
                    case "bits": value = args[0].view(step.precision.numpy)
                    case "cast": value = args[0].astype(step.precision.numpy)
                    case "scale": value = np.ldexp(args[0], args[1].astype(np.int32))
                    case op: value = np.asarray(BY_NAME[op].numpy(*args))
                values[step.name] = value
            result = values[self.result]
            if self.beyond:
                result = np.where(values[self.beyond] != 0, BY_NAME[self.name].numpy(*given), result)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A parameter or the result of a step, while a formula is written down."""

    name: str
    precision: Precision
    steps: list[Step]
    fresh: count[int]

    def step(self, op: str, args: tuple[Value | Number, ...], precision: Precision) -> Value:
        name = f"t{next(self.fresh)}"
        given = tuple([a.name if isinstance(a, Value) else a for a in args])
        self.steps.append(Step(name, op, given, precision if op == "where" else self.precision, precision))
        return Value(name, precision, self.steps, self.fresh)

    def apply(self, op: str, *args: Value | Number) -> Value:
        return self.step(op, args, self.precision)

    def cast(self, precision: Precision) -> Value:
        return self.step("cast", (self,), precision)

    def bits(self, precision: Precision) -> Value:
        return self.step("bits", (self,), precision)

    def compare(self, relation: str, other: Value | Number) -> Value:
        return self.step(relation, (self, other), bool_)

    def __add__(self, other: Value | Number) -> Value: return self.apply("add", self, other)
    def __sub__(self, other: Value | Number) -> Value: return self.apply("sub", self, other)
    def __rsub__(self, other: Number) -> Value: return self.apply("sub", other, self)
    def __mul__(self, other: Value | Number) -> Value: return self.apply("mul", self, other)
    def __truediv__(self, other: Value | Number) -> Value: return self.apply("div", self, other)
    def __rtruediv__(self, other: Number) -> Value: return self.apply("div", other, self)
    def __and__(self, other: Value | Number) -> Value: return self.apply("bitwise_and", self, other)
    def __or__(self, other: Value | Number) -> Value: return self.apply("bitwise_or", self, other)
    def __xor__(self, other: Value | Number) -> Value: return self.apply("bitwise_xor", self, other)
    def __lshift__(self, places: int) -> Value: return self.apply("left_shift", self, places)
    def __rshift__(self, places: int) -> Value: return self.apply("right_shift", self, places)
    def __abs__(self) -> Value: return self.apply("abs", self)
    def __lt__(self, other: Value | Number) -> Value: return self.compare("lt", other)
    def __gt__(self, other: Value | Number) -> Value: return self.compare("gt", other)
    def __ge__(self, other: Value | Number) -> Value: return self.compare("ge", other)


@cache
def spelled(formula: Formula) -> Formula:
    """The same without `scale`, by two products: of the first, with about half of the exponent, which is exact, and of
    the second, which rounds if need be, to subnormal numbers, to zero or to infinity."""
    steps: list[Step] = []
    fresh = count(len(formula.steps) + 1)
    for step in formula.steps:
        if step.op != "scale":
            steps.append(step)
            continue
        x, n = (Value(str(name), step.source, steps, fresh) for name in step.args)
        biased = (n + TWICE).bits(uint32)  # n + 254, and high bits that the shifts below move out
        half = biased >> 1
        first, second = ((exponent << 23).bits(float32) for exponent in (half, biased - half))
        product = x * first
        steps.append(Step(step.name, "mul", (product.name, second.name), step.source, step.precision))
    return replace(formula, steps=tuple(steps))


def scale(x: Value, n: Value) -> Value:
    return x.apply("scale", x, n)


def fma(x: Value, y: Value | Number, z: Value | Number) -> Value:
    return x.apply("fma", x, y, z)


def where(test: Value, then: Value | Number, orelse: Value | Number) -> Value:
    """One of two floats."""
    return test.step("where", (test, then, orelse), float32)


def clip(x: Value, low: float, high: float) -> Value:
    """NaN stays."""
    low_at_least = x.apply("max", x, low)
    return low_at_least.apply("min", low_at_least, high)


def polynomial(x: Value, *coefficients: float) -> Value:
    """The lowest power comes first."""
    *rest, last, total = coefficients
    value = fma(x, total, last)
    for coefficient in reversed(rest):
        value = fma(value, x, coefficient)
    return value


def formula(written: Callable[..., Value | tuple[Value, Value]]) -> Formula:
    """The formula that a function of values writes down; it may give besides where the library is to be called."""
    steps: list[Step] = []
    fresh = count(1)
    params = tuple(signature(written).parameters)
    got = written(*(Value(name, float32, steps, fresh) for name in params))
    result, beyond = got if isinstance(got, tuple) else (got, None)
    where_to = "" if beyond is None else beyond.name
    return Formula(written.__name__, getdoc(written) or "", params, tuple(steps), result.name, where_to)

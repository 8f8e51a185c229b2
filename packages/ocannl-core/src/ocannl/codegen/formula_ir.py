"""Elementary functions as formulas: straight-line sequences of primitive operations that every backend can print.

    exp(x)                                     t3 = fma(t2, 1.442695, 12583166)
      t1 = max(x, -104)                        t4 = t3 - 12583166
      t2 = min(t1, 89)                         ...

Results do not depend on vectorization: scalar and vector code compute the same values. Error bounds assume a fused
`fma`; an `fma` that rounds twice adds up to half an ulp. Rounding to integers is done by adding 1.5 * 2**23, or
1.5 * 2**52 in float64, which also leaves the integer in the low bits of the sum.
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
from ocannl.ir.precision import Precision, bool_, float32, float64, uint32, uint64

Array = np.ndarray[Any, Any]
Number = int | float
Operand = str | Number  # the name of a parameter or of an earlier step, or a constant
ROUND_MAGIC = 1.5 * 2**23
"""Adding and subtracting it rounds a float32 to an integer."""
ROUND_MAGIC_F64 = 1.5 * 2**52
"""Adding and subtracting it rounds a float64 to an integer."""
RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The layout of a float type: the type of its bits, and the number of bits of the mantissa that are stored.

    The low bits of `round_magic_twice_biased` hold twice the exponent bias.
    """

    bits: Precision
    mantissa: int
    round_magic_twice_biased: float


FORMATS = {
    float32: FloatFormat(uint32, 23, ROUND_MAGIC + 254),
    float64: FloatFormat(uint64, 52, ROUND_MAGIC_F64 + 2046),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One assignment `name = op(args)`, with operands of type `source` and a result of type `precision`.

    Operations are primitive ones, `bits` (bit cast), `cast` (conversion) and `scale(x, n)`, which is x * 2**n, rounded
    once, for integers n in [-252, 254], or [-2044, 2046] in float64. Comparisons return bool, which only `where` takes,
    as its first operand.
    """

    name: str
    op: str
    args: tuple[Operand, ...]
    source: Precision
    precision: Precision


@dataclass(frozen=True, slots=True)
class Formula:
    """The implementation of an operation in float32 or float64. Where the step `slow_path_test` is true, the
    mathematical library is called instead."""

    name: str
    doc: str
    params: tuple[str, ...]
    steps: tuple[Step, ...]
    result: str
    slow_path_test: str = ""
    precision: Precision = float32

    @property
    def is_single(self) -> bool:
        """Whether all values have the size of the result and there is no slow path."""
        kinds = {step.precision for step in self.steps} - {bool_}
        return not self.slow_path_test and all(kind.nbytes == self.precision.nbytes for kind in kinds)

    def numpy(self, *args: Array) -> Array:
        """Reference evaluation, with `fma` rounded twice."""
        values: dict[Operand, Array] = dict(zip(self.params, args, strict=True))
        with np.errstate(all="ignore"):
            for step in self.steps:
                operands = [values[a] if isinstance(a, str) else np.asarray(a, step.source.numpy) for a in step.args]
                match step.op:
                    case "bits": value = operands[0].view(step.precision.numpy)
                    case "cast": value = operands[0].astype(step.precision.numpy)
                    case "scale": value = np.ldexp(operands[0], operands[1].astype(np.int32))
                    case op: value = np.asarray(BY_NAME[op].numpy(*operands))
                values[step.name] = value
            result = values[self.result]
            if self.slow_path_test:
                result = np.where(values[self.slow_path_test] != 0, BY_NAME[self.name].numpy(*args), result)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class TracedValue:
    """A parameter or the result of a step while a formula is traced; operators append steps."""

    name: str
    precision: Precision
    steps: list[Step]
    counter: count[int]

    def step(self, op: str, args: tuple[TracedValue | Number, ...], precision: Precision) -> TracedValue:
        name = f"t{next(self.counter)}"
        operands = tuple([a.name if isinstance(a, TracedValue) else a for a in args])
        self.steps.append(Step(name, op, operands, precision if op == "where" else self.precision, precision))
        return TracedValue(name, precision, self.steps, self.counter)

    def apply(self, op: str, *args: TracedValue | Number) -> TracedValue:
        return self.step(op, args, self.precision)

    def cast(self, precision: Precision) -> TracedValue:
        return self.step("cast", (self,), precision)

    def bits(self, precision: Precision) -> TracedValue:
        return self.step("bits", (self,), precision)

    def compare(self, relation: str, operand: TracedValue | Number) -> TracedValue:
        return self.step(relation, (self, operand), bool_)

    def __add__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("add", self, operand)
    def __sub__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("sub", self, operand)
    def __rsub__(self, operand: Number) -> TracedValue: return self.apply("sub", operand, self)
    def __mul__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("mul", self, operand)
    def __truediv__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("div", self, operand)
    def __rtruediv__(self, operand: Number) -> TracedValue: return self.apply("div", operand, self)
    def __and__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("bitwise_and", self, operand)
    def __or__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("bitwise_or", self, operand)
    def __xor__(self, operand: TracedValue | Number) -> TracedValue: return self.apply("bitwise_xor", self, operand)
    def __lshift__(self, count: int) -> TracedValue: return self.apply("left_shift", self, count)
    def __rshift__(self, count: int) -> TracedValue: return self.apply("right_shift", self, count)
    def __abs__(self) -> TracedValue: return self.apply("abs", self)
    def __lt__(self, operand: TracedValue | Number) -> TracedValue: return self.compare("lt", operand)
    def __gt__(self, operand: TracedValue | Number) -> TracedValue: return self.compare("gt", operand)
    def __ge__(self, operand: TracedValue | Number) -> TracedValue: return self.compare("ge", operand)


@cache
def expand_scale(formula: Formula) -> Formula:
    """Replaces `scale` by two multiplications by powers of two. The first, by about half of the exponent, is exact;
    the second rounds, to subnormal numbers, zero or infinity if necessary."""
    steps: list[Step] = []
    counter = count(len(formula.steps) + 1)
    for step in formula.steps:
        if step.op != "scale":
            steps.append(step)
            continue
        x, n = (TracedValue(str(name), step.source, steps, counter) for name in step.args)
        form = FORMATS[step.source]
        biased = (n + form.round_magic_twice_biased).bits(form.bits)  # the shifts below discard the high bits
        half = biased >> 1
        first, second = ((exponent << form.mantissa).bits(step.source) for exponent in (half, biased - half))
        product = x * first
        steps.append(Step(step.name, "mul", (product.name, second.name), step.source, step.precision))
    return replace(formula, steps=tuple(steps))


def scale(x: TracedValue, n: TracedValue) -> TracedValue:
    return x.apply("scale", x, n)


def fma(x: TracedValue, y: TracedValue | Number, z: TracedValue | Number) -> TracedValue:
    return x.apply("fma", x, y, z)


def where(
    test: TracedValue, on_true: TracedValue | Number, on_false: TracedValue | Number, precision: Precision = float32
) -> TracedValue:
    """Selects `on_true` where `test` holds, else `on_false`; both are values, or numbers, of the same precision."""
    return test.step("where", (test, on_true, on_false), precision)


def clip(x: TracedValue, low: float, high: float) -> TracedValue:
    """Clamps to [low, high]; NaN is preserved."""
    clamped = x.apply("max", x, low)
    return clamped.apply("min", clamped, high)


def polynomial(x: TracedValue, *coefficients: float) -> TracedValue:
    """Evaluates a polynomial by Horner's scheme; coefficients are in order of increasing powers."""
    *lower, next_leading, leading = coefficients
    value = fma(x, leading, next_leading)
    for coefficient in reversed(lower):
        value = fma(value, x, coefficient)
    return value


def formula(
    function: Callable[..., TracedValue | tuple[TracedValue, TracedValue]], precision: Precision = float32
) -> Formula:
    """Traces a function of values; it returns the result or a pair of the result and the slow-path test."""
    steps: list[Step] = []
    counter = count(1)
    params = tuple(signature(function).parameters)
    returned = function(*(TracedValue(name, precision, steps, counter) for name in params))
    result, slow_path_test = returned if isinstance(returned, tuple) else (returned, None)
    test_name = "" if slow_path_test is None else slow_path_test.name
    doc = getdoc(function) or ""
    return Formula(function.__name__, doc, params, tuple(steps), result.name, test_name, precision)

"""Random values of statements, with their bounds.

Operands are limited to ranges in which the operation is well conditioned, and discontinuous operations (comparisons,
truncation, gates) are only applied to exact values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random

from ocannl.ir.affine import Affine
from ocannl.ir.assign import Call, Convert, Index, Number
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import Family, Precision, int32
from ocannl.testing.error_bounds import BoundedValue, Info, common, converted, is_integer, limits, settled

LARGE = 64.0  # operands are kept below this
NUMBERS = (0, 1, 2, 3, -1, -2, 0.5, -1.5, 0.25, 2.0, 300, 0.1)
UNARY = (
    "id", "neg", "neg", "abs", "relu", "sat01", "not", "trunc", "exp", "exp2", "log", "log2", "sin", "cos", "tanh",
    "sqrt", "recip", "recip_sqrt",
)  # fmt: skip
SIGMOIDS = (("tanh", (-1.0, 1.0), 1), ("erf", (-1.0, 1.0), 1.13), ("erfc", (0.0, 2.0), 1.13), ("atan", (-1.6, 1.6), 1))
"""Functions drawn as `tanh`, with their bounds and largest slopes."""
BINARY = (
    "add", "add", "sub", "sub", "mul", "mul", "mul", "max", "min", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
    "relu_gate", "sat01_gate", "fst", "snd", "div", "pow", "mod",
)  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
WORD_OPS = ("threefry4x32_20", "threefry4x32_12")


@dataclass(frozen=True)
class Values:
    """Generates values; `read` and `index` supply cells and indices."""

    random: Random
    read: Callable[[], BoundedValue]
    index: Callable[[], Affine]
    precisions: Sequence[Precision]  # to convert to

    def value(self, depth: int) -> BoundedValue:
        if depth <= 0:
            match self.random.choice(("read",) * 8 + ("number", "number", "index")):
                case "number":
                    return self.number(self.random.choice(NUMBERS))
                case "index":
                    index = self.index()
                    low, high = (0, 0) if any(s.extent == 0 for s in index.syms) else index.range()
                    return Index(index), Info(low, high, 0, 0, None, True)
                case _:
                    return self.read()
        match self.random.choice((1, 1, 2, 2, 2, 2, 2, 3, "convert", "bits")):
            case 1:
                return self.unary(self.random.choice(UNARY), self.value(depth - 1))
            case 2:
                left, right = self.value(depth - 1), self.value(self.random.randrange(depth))
                return self.binary(self.random.choice(BINARY), left, right)
            case 3:
                a, b = self.value(depth - 1), self.value(self.random.randrange(depth))
                c = self.value(0)
                if self.random.random() < 0.4:
                    return self.fma(a, b, c)
                return self.where(c, a, b)
            case "bits":
                return self.bits(self.random.choice(WORD_OPS + BITS), self.value(depth - 1), self.value(0))
            case _:
                return self.convert(self.value(depth - 1), self.random.choice(self.precisions))

    def number(self, value: float) -> BoundedValue:
        grain = next((g for g in range(4) if (value * 2.0**g).is_integer()), None)
        error = 0.0 if grain is not None else 2.0**-20
        return Number(value), Info(value, value, grain or 0, error, None)

    def apply(
        self, name: str, operands: Sequence[BoundedValue], low: float, high: float, grain: int, error: float
    ) -> BoundedValue:
        """An application, with the bounds of its result before rounding."""
        op = BY_NAME[name]
        infos = [i for _, i in operands]
        kind = common(op, infos[1:] if name == "where" else infos)
        if is_integer(kind):
            grain, error = 0, 0.0
        elif any(is_integer(i.kind) and i.size > 2**21 for i in infos):
            error += max(i.size for i in infos) * 2.0**-20
        value = Call(op, tuple(v for v, _ in operands))
        return value, settled(Info(min(low, high), max(low, high), grain, error, kind))

    def unary(self, name: str, operand: BoundedValue) -> BoundedValue:
        operand = self.tame(operand)
        if name in ("not", "trunc") and not operand[1].exact:
            name = "neg"
        if name in ("exp", "exp2"):
            operand = self.clamped(operand, -4, 4)
        if name in ("log", "log2", "recip", "recip_sqrt"):
            operand = self.positive(operand)
        if name == "sqrt":
            operand = self.unary("abs", operand)
        x = operand[1]
        low, high, size, e = x.low, x.high, x.size, x.error
        slope: float = 1
        match name:
            case "neg": return self.apply(name, [operand], -high, -low, x.grain, e)
            case "abs": return self.apply(name, [operand], 0, size, x.grain, e)
            case "relu": return self.apply(name, [operand], max(low, 0), max(high, 0), x.grain, e)
            case "sat01" | "not": return self.apply(name, [operand], 0, 1, x.grain, e)
            case "trunc": return self.apply(name, [operand], -size, size, 0, e)
            case "id": return self.apply(name, [operand], low, high, x.grain, e)
            case "exp" | "exp2": bounds, slope = (0.0, exp(high)), exp(high)
            case "log" | "log2": bounds, slope = (0, log(high + 1, 2)), 1.5
            case "sqrt": bounds, slope = (0, sqrt(size)), 1
            case "tanh":
                name, bounds, slope = SIGMOIDS[int(997 * (3 * low + 5 * high)) % len(SIGMOIDS)]
            case _: bounds = (-1, 1)
        if name == "sqrt" and e:
            e = sqrt(e)
        off = slope * e + 2.0**-19 * max(1.0, *map(abs, bounds)) * (1 + (size if name in ("sin", "cos") else 0))
        return self.apply(name, [operand], *bounds, 99, off)

    def binary(self, name: str, left: BoundedValue, right: BoundedValue) -> BoundedValue:
        if name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "mod") and not (left[1].exact and right[1].exact):
            name = "sub"
        if name in ("relu_gate", "sat01_gate") and not left[1].exact:
            name = "mul"
        left, right = self.tame(left), self.tame(right)
        if name == "pow":
            kind = common(BY_NAME[name], [left[1], right[1]])
            if is_integer(kind):
                right = self.clamped(self.tame(right), 0, 2)
                if right[1].low < 0 or is_integer(common(BY_NAME[name], [left[1], right[1]])) is False:
                    name = "mul"
            else:
                left, right = self.positive(left), self.clamped(right, -2, 2)
        if name in ("div", "mod"):
            right = self.positive(right)
        x, y = left[1], right[1]
        both = [left, right]
        grain, e = max(x.grain, y.grain), x.error + y.error
        match name:
            case "add": return self.apply(name, both, x.low + y.low, x.high + y.high, grain, e)
            case "sub": return self.apply(name, both, x.low - y.high, x.high - y.low, grain, e)
            case "mul":
                bound = x.size * y.size
                low = 0 if x.low >= 0 and y.low >= 0 else -bound
                return self.apply(name, both, low, bound, x.grain + y.grain, x.size * y.error + y.size * x.error)
            case "div": return self.apply(name, both, -x.size, x.size, 99, x.error + x.size * y.error + 2.0**-20)
            case "pow":
                bound = max(x.size, 1.0) ** max(y.high, -y.low, 0)
                kind = common(BY_NAME[name], [x, y])
                rough = e * bound * 8 + 2.0**-18 * bound
                return self.apply(name, both, 0 if x.low >= 0 else -bound, bound, 0, 0 if is_integer(kind) else rough)
            case "mod": return self.apply(name, both, 0, y.high, grain, 0)
            case "relu_gate" | "sat01_gate":
                return self.apply(name, both, min(y.low, 0), max(y.high, 0), y.grain, y.error)
            case "fst": return self.apply(name, both, x.low, x.high, x.grain, x.error)
            case "snd": return self.apply(name, both, y.low, y.high, y.grain, y.error)
            case "max" | "min":
                return self.apply(name, both, min(x.low, y.low), max(x.high, y.high), grain, max(x.error, y.error))
            case _: return self.apply(name, both, 0, 1, 0, 0)

    def bits(self, name: str, left: BoundedValue, right: BoundedValue) -> BoundedValue:
        """Of integers; of words, a few bits."""
        if not (left[1].exact and right[1].exact):
            return self.binary("sub", left, right)
        left, right = (self.convert(self.tame(k), int32) for k in (left, right))
        if name in WORD_OPS:
            args = [left, right, *(self.number(self.random.randrange(5)) for _ in range(7))]
            return self.tame(self.apply(name, args, 0, 2**32 - 1, 0, 0))
        x, y = left[1], right[1]
        low: float = -128 if min(x.low, y.low) < 0 else 0
        high: float = 127
        if name == "right_shift":
            low, high = min(x.low, 0), max(x.high, 0)
        elif name == "left_shift":
            low, high = limits(int32)
        return self.apply(name, [left, right], low, high, 0, 0)

    def where(self, cond: BoundedValue, left: BoundedValue, right: BoundedValue) -> BoundedValue:
        if not cond[1].exact:
            cond = self.number(self.random.choice((0, 1, 0.5)))
        x, y = left[1], right[1]
        low, high = min(x.low, y.low), max(x.high, y.high)
        return self.apply("where", [cond, left, right], low, high, max(x.grain, y.grain), max(x.error, y.error))

    def fma(self, left: BoundedValue, right: BoundedValue, add: BoundedValue) -> BoundedValue:
        left, right, add = self.tame(left), self.tame(right), self.tame(add)
        x, y, z = left[1], right[1], add[1]
        bound = x.size * y.size + z.size
        error = x.size * y.error + y.size * x.error + z.error
        return self.apply("fma", [left, right, add], -bound, bound, max(x.grain + y.grain, z.grain), error)

    def convert(self, operand: BoundedValue, kind: Precision) -> BoundedValue:
        value, info = operand
        if not kind.is_float and not is_integer(info.kind):
            if not info.exact:
                return operand
            if kind.family is not Family.BOOL:
                value, info = self.clamped(operand, 0 if limits(kind)[0] == 0 else -50, 50)
        if kind.is_float and info.size > 200:
            value, info = self.tame((value, info))
        return Convert(value, kind), converted(info, kind)

    def tame(self, operand: BoundedValue) -> BoundedValue:
        """The value, brought into a range where further computation is well conditioned."""
        value, info = operand
        if info.size <= LARGE:
            return operand
        if is_integer(info.kind) or info.kind is None:
            return Call(BY_NAME["mod"], (value, Number(7))), Info(0, 6, 0, 0, common(BY_NAME["mod"], [info]))
        return self.clamped(operand, -LARGE, LARGE)

    def clamped(self, operand: BoundedValue, low: float, high: float) -> BoundedValue:
        out = operand
        if operand[1].high > high:
            out = self.limited_above(out, high)
        if operand[1].low < low:
            out = self.limited_below(out, low)
        return out

    def limited_above(self, operand: BoundedValue, high: float) -> BoundedValue:
        x, limit = operand[1], self.number(high)
        grain = max(x.grain, limit[1].grain)
        return self.apply("min", [operand, limit], min(x.low, high), min(x.high, high), grain, x.error)

    def limited_below(self, operand: BoundedValue, low: float) -> BoundedValue:
        x, limit = operand[1], self.number(low)
        grain = max(x.grain, limit[1].grain)
        return self.apply("max", [operand, limit], max(x.low, low), max(x.high, low), grain, x.error)

    def positive(self, operand: BoundedValue) -> BoundedValue:
        """Its magnitude plus one."""
        x = self.tame(operand)
        size = self.unary("abs", x)
        unit = self.number(1)
        return self.apply("add", [size, unit], 1, size[1].high + 1, size[1].grain, size[1].error)

"""Values as text, and the operations on them.

A value is a number or a block of them; its axes say along which axes of the kernel it varies. A block has as many axes
as the kernel, of size one where it does not vary; a value that varies along none is a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ocannl.backend import Unsupported
from ocannl.codegen.numbers import bits, is_narrow, is_signed, limits, pattern, rounded
from ocannl.ir import threefry
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision, bool_, float32, int32, uint32
from ocannl.ir.text import short
from ocannl_backend_triton.float8 import FORMATS8, narrowed, widened
from ocannl_backend_triton.types import held

Axes = frozenset[int]
NOWHERE: Axes = frozenset()


@dataclass(frozen=True, slots=True)
class Value:
    """`truth` is the same as a truth value, where that comes cheaper; `constant` the number that it is; a literal takes
    its type from what it meets."""

    text: str
    precision: Precision
    axes: Axes = NOWHERE
    truth: str = ""
    constant: str = ""
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that kernels call."""

    name: str
    text: str
    needs: tuple[Helper, ...] = field(default=())


RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
INFIX = {"add": "+", "sub": "-", "mul": "*", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
NATIVE = {"recip_sqrt": "rsqrt", **{name: name for name in ("exp", "exp2", "log", "log2", "sin", "cos")}}
CLOSED = ("max", "min", "mul", "where", "id", "fst", "snd", "relu")  # of truth values they give truth values

FLOAT = {
    "abs": "tl.abs({0})",
    "trunc": "_trunc({0})",
    "relu": "_maximum({0}, {zero})",
    "sat01": "_minimum(_maximum({0}, {zero}), {one})",
    "max": "_maximum({0}, {1})",
    "min": "_minimum({0}, {1})",
    "fma": "tl.fma({0}, {1}, {2})",
    "sqrt": "tl.sqrt({0})",
    "div": "({0} / {1})",
    "recip": "({one} / {0})",
    "mod": "_modulo({0}, {1})",
    **{name: f"tl.{function}({{0}})" for name, function in NATIVE.items()},
    "tanh": "libdevice.tanh({0})",
    "pow": "libdevice.pow({0}, {1})",
}
SINGLE = {  # as IEEE has them; the operators are faster and less exact
    "sqrt": "tl.sqrt_rn({0})",
    "div": "tl.div_rn({0}, {1})",
    "recip": "tl.div_rn({one}, {0})",
}
UNSIGNED = {
    "abs": "{0}",
    "trunc": "{0}",
    "relu": "{0}",
    "sat01": "tl.minimum({0}, {one})",
    "sat01_gate": "{zero}",  # no whole number lies between
    "max": "tl.maximum({0}, {1})",
    "min": "tl.minimum({0}, {1})",
    "fma": "({0} * {1} + {2})",
}
SIGNED = UNSIGNED | {
    "abs": "tl.abs({0})",
    "relu": "tl.maximum({0}, {zero})",
    "sat01": "tl.minimum(tl.maximum({0}, {zero}), {one})",
}
ANY = {
    "neg": "(-{0})",
    "relu_gate": "tl.where({0} > 0, {1}, {zero})",
    "sat01_gate": "tl.where(({0} > 0) & ({0} < 1), {1}, {zero})",
}
MODULO = """\
rest = libdevice.fmod(x, y)
return tl.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)"""
HELPERS = {  # no user's word begins as these do
    "_maximum": ("x, y", "return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)"),
    "_minimum": ("x, y", "return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)"),
    "_trunc": ("x", "return tl.where(x < 0, tl.ceil(x), tl.floor(x))"),
    "_modulo": ("x, y", MODULO),
}
POWER = """\
left = n + x * 0
base = x + n * 0
product = base * 0 + 1
for _ in range(BITS):
    product = tl.where((left & 1) != 0, product * base, product)
    base = base * base
    left = left >> 1
{negative}return product"""
WHOLE = {  # on whole numbers: they never trap, and wrap
    "mod": ("x, y", "safe = tl.where({trap}, ONE, y)\nrest = x % safe\n{signed}return tl.where(y == 0, ZERO, rest)"),
    "pow": ("x, n", POWER),
    "left_shift": ("x, n", "room = (n >= 0) & (n < BITS)\nreturn tl.where(room, x << tl.where(room, n, ZERO), ZERO)"),
    "right_shift": ("x, n", "room = (n >= 0) & (n < BITS)\n{shift}"),
}


def bare(text: str) -> str:
    """Without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def neutral(op: Op, precision: Precision) -> int | float:
    """What adds nothing; of truth values, the lowest is 0, and of a type without infinities, the lowest number."""
    value = op.neutral or 0
    if precision in FORMATS8 and not FORMATS8[precision].infinities:
        largest = float(np.uint8(FORMATS8[precision].top - 1).view(precision.numpy))
        return min(max(value, -largest), largest)
    return int(value > 0) if precision is bool_ else value


class Operations:
    """What operations are as text, and the helpers that they need, in order."""

    def __init__(self) -> None:
        self.helpers: dict[str, str] = {}
        self.uses_library = False

    # ------------------------------------------------------------------------------------------------------ numbers

    def number(self, value: int | float, precision: Precision) -> Value:
        """A constant: as it stands where triton takes that for the type, else with the type."""
        exact = pattern(value, precision) if precision in FORMATS8 else rounded(value, precision)
        text = repr(exact)
        if isinstance(exact, float) and not math.isfinite(exact):
            text = f'float("{exact}")'
        plain = precision is int32 or (precision is float32 and not 0 < abs(exact) < float(np.finfo(np.float32).tiny))
        if plain:
            return Value(f"({text})" if text.startswith("-") else text, precision, constant=text, literal=True)
        return Value(f"tl.full((), {text}, {held(precision).value})", precision, constant=text)

    def typed(self, value: Value) -> Value:
        if not value.literal:
            return value
        return replace(value, text=f"tl.full((), {value.text}, {held(value.precision).value})", literal=False)

    def truth(self, value: Value) -> str:
        if is_narrow(value.precision):
            value = self.cast(value, float32)
        return value.truth or f"({value.text} != 0)"

    def as_truth(self, text: str, precision: Precision, axes: Axes) -> Value:
        return Value(f"tl.cast({text}, {held(precision).value})", precision, axes, truth=text)

    def cast(self, value: Value, precision: Precision) -> Value:
        if precision is value.precision:
            return value
        if precision is bool_:
            return self.as_truth(self.truth(value), bool_, value.axes)
        if value.precision in FORMATS8:
            name = self.define(f"_from_{value.precision}", "x", widened(FORMATS8[value.precision]))
            return self.cast(Value(f"{name}({value.text})", float32, value.axes), precision)
        if precision in FORMATS8:
            wide = self.typed(self.cast(value, float32))
            name = self.define(f"_to_{precision}", "x", narrowed(FORMATS8[precision]))
            return Value(f"{name}({bare(wide.text)})", precision, value.axes)
        if value.precision.is_float and not precision.is_float:
            wide = self.typed(self.cast(value, float32) if is_narrow(value.precision) else value)
            return Value(f"{self.cut(precision)}({bare(wide.text)})", precision, value.axes)
        return Value(f"tl.cast({self.typed(value).text}, {held(precision).value})", precision, value.axes)

    def whole_number(self, text: str, precision: Precision, axes: Axes) -> Value:
        """An index as a number."""
        if precision is bool_:
            return self.as_truth(f"({text} != 0)", precision, axes)
        if precision in FORMATS8:
            return self.cast(self.whole_number(text, float32, axes), precision)
        return Value(f"tl.cast({text}, {held(precision).value})", precision, axes)

    # --------------------------------------------------------------------------------------------------- operations

    def apply(self, op: Op, given: Sequence[Value]) -> Value:
        precision = given[-1].precision
        if is_narrow(precision):  # computed in float32
            wide = [self.cast(value, float32) for value in given]
            return self.cast(self.apply(op, wide), precision)
        args = [self.typed(given[0]), *given[1:]] if all(v.literal for v in given) else list(given)
        axes = NOWHERE.union(*(v.axes for v in args))
        name = op.name
        match name:
            case "id" | "fst": return args[0]
            case "snd": return args[1]
            case "not": return self.as_truth(f"({args[0].text} == 0)", precision, axes)
            case "and" | "or":
                sign = "&" if name == "and" else "|"
                return self.as_truth(f"({self.truth(args[0])} {sign} {self.truth(args[1])})", precision, axes)
            case "where":
                test, then, orelse = args[0], self.typed(args[1]), self.typed(args[2])
                return Value(f"tl.where({self.truth(test)}, {then.text}, {orelse.text})", precision, axes)
        if name in RELATIONS:
            return self.as_truth(f"({args[0].text} {RELATIONS[name]} {args[1].text})", precision, axes)
        if name in INFIX:
            text = f"({args[0].text} {INFIX[name]} {args[1].text})"
        else:
            text = self.called(name, precision, [self.typed(value).text for value in args])
        if precision is bool_ and name not in CLOSED:
            return self.as_truth(f"({text} != 0)", bool_, axes)
        return Value(text, precision, axes)

    def called(self, name: str, precision: Precision, args: list[str]) -> str:
        if name.startswith("threefry"):
            return f"{self.threefry(int(name.rpartition('_')[2]))}({', '.join(args)})"
        if not precision.is_float and name in WHOLE:
            return f"{self.whole(name, precision)}({', '.join(args)})"
        table = ANY | (FLOAT if precision.is_float else SIGNED if is_signed(precision) else UNSIGNED)
        template = (SINGLE.get(name) if precision is float32 else None) or table.get(name)
        if template is None:
            raise Unsupported(f"backend `triton` has no operation `{name}` on {precision}")
        for helper in HELPERS:
            if f"{helper}(" in template:
                self.need(helper)
        self.uses_library |= "libdevice" in template
        zero, one = (self.typed(self.number(n, precision)).text for n in (0, 1))
        return template.format(*args, zero=zero, one=one)

    # ------------------------------------------------------------------------------------------------------ helpers

    def define(self, name: str, params: str, body: str) -> str:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        self.helpers.setdefault(name, f"@triton.jit\ndef {name}({params}):\n{lines}")
        return name

    def need(self, name: str) -> str:
        params, body = HELPERS[name]
        self.uses_library |= "libdevice" in body
        return self.define(name, params, body)

    def whole(self, name: str, precision: Precision) -> str:
        params, body = WHOLE[name]
        signed = is_signed(precision)
        shift = (
            f"return x >> tl.where(room, n, {bits(precision) - 1})" if signed
            else "return tl.where(room, x >> tl.where(room, n, ZERO), ZERO)"
        )  # fmt: skip
        body = body.format(
            trap="(y == 0) | (y == -1)" if signed else "y == 0",
            signed="rest = tl.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)\n" if signed else "",
            negative="product = tl.where((n < 0) & ((x < -1) | (x > 1)), ZERO, product)\n" if signed else "",
            shift=shift,
        )
        if not signed:
            body = body.replace("(n >= 0) & ", "")
        zero, one = (self.typed(self.number(n, precision)).text for n in (0, 1))
        body = body.replace("ZERO", zero).replace("ONE", one).replace("BITS", str(bits(precision)))
        return self.define(f"_{name}_{short(precision)}", params, body)

    def cut(self, precision: Precision) -> str:
        """A float without its fraction; the nearest number that there is, of what is too large, and zero of NaN."""
        low, high = limits(precision)
        inside = f"tl.cast(x, {held(precision).value})"
        least, most, zero = (self.typed(self.number(n, precision)).text for n in (low, high, 0))
        below = f"tl.where(x != x, {zero}, {least})" if low else zero
        body = f"return tl.where(x >= {float(high + 1)}, {most}, tl.where(x > {float(low)}, {inside}, {below}))"
        return self.define(f"_to_{short(precision)}", "x", body)

    def threefry(self, rounds: int) -> str:
        """One word: compilers see that neighbours share the rounds."""
        lines = [f"k4 = {self.number(threefry.PARITY, uint32).text} ^ k0 ^ k1 ^ k2 ^ k3"]
        for step in threefry.steps(rounds):
            match step:
                case threefry.Mix(i, j, turn):
                    lines.append(f"x{i} = x{i} + x{j}")
                    lines.append(f"x{j} = ((x{j} << {turn}) | (x{j} >> {32 - turn})) ^ x{i}")
                case threefry.Inject(lane, word, number):
                    lines.append(f"x{lane} = x{lane} + k{word}{f' + {number}' if number else ''}")
        lines.append("odd = (lane & 1) != 0")
        lines.append("return tl.where((lane & 2) != 0, tl.where(odd, x3, x2), tl.where(odd, x1, x0))")
        return self.define(f"_threefry_{rounds}", "k0, k1, k2, k3, x0, x1, x2, x3, lane", "\n".join(lines))

    def combine(self, op: Op, precision: Precision) -> str:
        """The function by which `tl.reduce` folds blocks."""
        x, y = Value("x", precision), Value("y", precision)
        body = f"return {bare(self.apply(op, (x, y)).text)}"
        kind = "" if op.name in ("add", "mul") and precision.family is not Family.BOOL else f"_{short(precision)}"
        return self.define(f"_fold_{op.name}{kind}", "x, y", body)

"""Triton expressions for values, and operations on them.

A value is a scalar or a block. A block has the rank of the kernel, with size one along axes where it does not vary; a
value that varies along no axis is a scalar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocannl.backend import Unsupported
from ocannl.codegen.numbers import bits, is_narrow, is_signed, pattern, rounded
from ocannl.ir import threefry
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision, bool_, float32, int32, integer_limits, uint32
from ocannl.ir.printer import short_name
from ocannl_backend_triton.float8 import FORMATS8, narrowing_body, widening_body
from ocannl_backend_triton.types import triton_type

Axes = frozenset[int]
NO_AXES: Axes = frozenset()


@dataclass(frozen=True, slots=True)
class BlockValue:
    """The text of a scalar or block and the axes along which it varies.

    `condition` is a cheaper boolean form, if any; `constant` the text of a constant. A literal adopts the type of the
    other operand.
    """

    text: str
    precision: Precision
    axes: Axes = NO_AXES
    condition: str = ""
    constant: str = ""
    is_literal: bool = False


COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
INFIX = {"add": "+", "sub": "-", "mul": "*", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
TRITON_FUNCTIONS = {"recip_sqrt": "rsqrt", **{name: name for name in ("exp", "exp2", "log", "log2", "sin", "cos")}}
CLOSED_ON_BOOL = ("max", "min", "mul", "where", "id", "fst", "snd", "relu")  # map 0 and 1 to 0 and 1

FLOAT_TEMPLATES = {
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
    **{name: f"tl.{function}({{0}})" for name, function in TRITON_FUNCTIONS.items()},
    **{name: f"libdevice.{name}({{0}})" for name in ("atan", "tanh", "erf", "erfc", "lgamma")},
    **{name: f"libdevice.{name}({{0}}, {{1}})" for name in ("atan2", "pow")},
}
FLOAT32_TEMPLATES = {  # correctly rounded; Triton's operators are faster and less accurate
    "sqrt": "tl.sqrt_rn({0})",
    "div": "tl.div_rn({0}, {1})",
    "recip": "tl.div_rn({one}, {0})",
}
UNSIGNED_TEMPLATES = {
    "abs": "{0}",
    "trunc": "{0}",
    "relu": "{0}",
    "sat01": "tl.minimum({0}, {one})",
    "sat01_gate": "{zero}",  # no integer lies strictly between 0 and 1
    "max": "tl.maximum({0}, {1})",
    "min": "tl.minimum({0}, {1})",
    "fma": "({0} * {1} + {2})",
}
SIGNED_TEMPLATES = UNSIGNED_TEMPLATES | {
    "abs": "tl.abs({0})",
    "relu": "tl.maximum({0}, {zero})",
    "sat01": "tl.minimum(tl.maximum({0}, {zero}), {one})",
}
COMMON_TEMPLATES = {
    "neg": "(-{0})",
    "relu_gate": "tl.where({0} > 0, {1}, {zero})",
    "sat01_gate": "tl.where(({0} > 0) & ({0} < 1), {1}, {zero})",
}
MODULO_BODY = """\
rest = libdevice.fmod(x, y)
return tl.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)"""
HELPERS = {  # identifiers made of user labels never begin like these
    "_maximum": ("x, y", "return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)"),
    "_minimum": ("x, y", "return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)"),
    "_trunc": ("x", "return tl.where(x < 0, tl.ceil(x), tl.floor(x))"),
    "_modulo": ("x, y", MODULO_BODY),
}
POWER_BODY = """\
left = n + x * 0
base = x + n * 0
product = base * 0 + 1
for _ in range(BITS):
    product = tl.where((left & 1) != 0, product * base, product)
    base = base * base
    left = left >> 1
{negative}return product"""
INTEGER_HELPERS = {  # they wrap around and never trap
    "mod": ("x, y", "safe = tl.where({trap}, ONE, y)\nrest = x % safe\n{signed}return tl.where(y == 0, ZERO, rest)"),
    "pow": ("x, n", POWER_BODY),
    "left_shift": ("x, n", "room = (n >= 0) & (n < BITS)\nreturn tl.where(room, x << tl.where(room, n, ZERO), ZERO)"),
    "right_shift": ("x, n", "room = (n >= 0) & (n < BITS)\n{shift}"),
}


def strip_parentheses(text: str) -> str:
    """The text without parentheses that enclose all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


class OperationPrinter:
    """Prints operations on values, and collects the helper functions that they need, in order."""

    def __init__(self) -> None:
        self.helpers: dict[str, str] = {}
        self.uses_libdevice = False

    # ------------------------------------------------------------------------------------------------------ numbers

    def number(self, value: int | float, precision: Precision) -> BlockValue:
        """A constant: a literal where Triton infers the right type, otherwise an expression with an explicit type."""
        exact = pattern(value, precision) if precision in FORMATS8 else rounded(value, precision)
        text = repr(exact)
        if isinstance(exact, float) and not math.isfinite(exact):
            text = f'float("{exact}")'
        is_normal = not 0 < abs(exact) < float(np.finfo(np.float32).tiny)
        if precision is int32 or (precision is float32 and is_normal):
            return BlockValue(f"({text})" if text.startswith("-") else text, precision, constant=text, is_literal=True)
        return BlockValue(f"tl.full((), {text}, {triton_type(precision).dtype})", precision, constant=text)

    def with_type(self, value: BlockValue) -> BlockValue:
        if not value.is_literal:
            return value
        return replace(value, text=f"tl.full((), {value.text}, {triton_type(value.precision).dtype})", is_literal=False)

    def as_condition(self, value: BlockValue) -> str:
        if is_narrow(value.precision):
            value = self.cast(value, float32)
        return value.condition or f"({value.text} != 0)"

    def from_condition(self, text: str, precision: Precision, axes: Axes) -> BlockValue:
        return BlockValue(f"tl.cast({text}, {triton_type(precision).dtype})", precision, axes, condition=text)

    def cast(self, value: BlockValue, precision: Precision) -> BlockValue:
        if precision is value.precision:
            return value
        if precision is bool_:
            return self.from_condition(self.as_condition(value), bool_, value.axes)
        if value.precision in FORMATS8:
            name = self.define(f"_from_{value.precision}", "x", widening_body(FORMATS8[value.precision]))
            return self.cast(BlockValue(f"{name}({value.text})", float32, value.axes), precision)
        if precision in FORMATS8:
            wide = self.with_type(self.cast(value, float32))
            name = self.define(f"_to_{precision}", "x", narrowing_body(FORMATS8[precision]))
            return BlockValue(f"{name}({strip_parentheses(wide.text)})", precision, value.axes)
        if value.precision.is_float and not precision.is_float:
            wide = self.with_type(self.cast(value, float32) if is_narrow(value.precision) else value)
            text = f"{self.truncation_helper(precision)}({strip_parentheses(wide.text)})"
        else:
            text = f"tl.cast({self.with_type(value).text}, {triton_type(precision).dtype})"
        return BlockValue(text, precision, value.axes)

    def index_value(self, text: str, precision: Precision, axes: Axes) -> BlockValue:
        """The value of an index expression, converted to a precision."""
        if precision is bool_:
            return self.from_condition(f"({text} != 0)", precision, axes)
        if precision in FORMATS8:
            return self.cast(self.index_value(text, float32, axes), precision)
        return BlockValue(f"tl.cast({text}, {triton_type(precision).dtype})", precision, axes)

    # --------------------------------------------------------------------------------------------------- operations

    def apply(self, op: Op, operands: Sequence[BlockValue]) -> BlockValue:
        precision = operands[-1].precision
        if is_narrow(precision):  # computed in float32
            wide = [self.cast(value, float32) for value in operands]
            return self.cast(self.apply(op, wide), precision)
        args = [self.with_type(operands[0]), *operands[1:]] if all(v.is_literal for v in operands) else list(operands)
        axes = NO_AXES.union(*(v.axes for v in args))
        name = op.name
        match name:
            case "id" | "fst": return args[0]
            case "snd": return args[1]
            case "not": return self.from_condition(f"({args[0].text} == 0)", precision, axes)
            case "and" | "or":
                sign = "&" if name == "and" else "|"
                text = f"({self.as_condition(args[0])} {sign} {self.as_condition(args[1])})"
                return self.from_condition(text, precision, axes)
            case "where":
                test, if_true, if_false = args[0], self.with_type(args[1]), self.with_type(args[2])
                text = f"tl.where({self.as_condition(test)}, {if_true.text}, {if_false.text})"
                return BlockValue(text, precision, axes)
        if name in COMPARISONS:
            return self.from_condition(f"({args[0].text} {COMPARISONS[name]} {args[1].text})", precision, axes)
        if name in INFIX:
            text = f"({args[0].text} {INFIX[name]} {args[1].text})"
        else:
            text = self.call(name, precision, [self.with_type(value).text for value in args])
        if precision is bool_ and name not in CLOSED_ON_BOOL:
            return self.from_condition(f"({text} != 0)", bool_, axes)
        return BlockValue(text, precision, axes)

    def call(self, name: str, precision: Precision, args: list[str]) -> str:
        if name.startswith("threefry"):
            return f"{self.threefry_helper(int(name.rpartition('_')[2]))}({', '.join(args)})"
        if not precision.is_float and name in INTEGER_HELPERS:
            return f"{self.integer_helper(name, precision)}({', '.join(args)})"
        integer_templates = SIGNED_TEMPLATES if is_signed(precision) else UNSIGNED_TEMPLATES
        table = COMMON_TEMPLATES | (FLOAT_TEMPLATES if precision.is_float else integer_templates)
        template = (FLOAT32_TEMPLATES.get(name) if precision is float32 else None) or table.get(name)
        if template is None:
            raise Unsupported(f"backend `triton` has no operation `{name}` on {precision}")
        for helper in HELPERS:
            if f"{helper}(" in template:
                self.require_helper(helper)
        self.uses_libdevice |= "libdevice" in template
        zero, one = (self.with_type(self.number(n, precision)).text for n in (0, 1))
        return template.format(*args, zero=zero, one=one)

    # ------------------------------------------------------------------------------------------------------ helpers

    def define(self, name: str, params: str, body: str) -> str:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        self.helpers.setdefault(name, f"@triton.jit\ndef {name}({params}):\n{lines}")
        return name

    def require_helper(self, name: str) -> str:
        params, body = HELPERS[name]
        self.uses_libdevice |= "libdevice" in body
        return self.define(name, params, body)

    def integer_helper(self, name: str, precision: Precision) -> str:
        params, body = INTEGER_HELPERS[name]
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
        zero, one = (self.with_type(self.number(n, precision)).text for n in (0, 1))
        body = body.replace("ZERO", zero).replace("ONE", one).replace("BITS", str(bits(precision)))
        return self.define(f"_{name}_{short_name(precision)}", params, body)

    def truncation_helper(self, precision: Precision) -> str:
        """A float truncated to an integer, saturating at the limits of the type; NaN becomes 0."""
        low, high = integer_limits(precision)
        inside = f"tl.cast(x, {triton_type(precision).dtype})"
        lowest, highest, zero = (self.with_type(self.number(n, precision)).text for n in (low, high, 0))
        below = f"tl.where(x != x, {zero}, {lowest})" if low else zero
        body = f"return tl.where(x >= {float(high + 1)}, {highest}, tl.where(x > {float(low)}, {inside}, {below}))"
        return self.define(f"_to_{short_name(precision)}", "x", body)

    def threefry_helper(self, rounds: int) -> str:
        """One word of the result. Compilers eliminate the rounds common to neighbouring lanes."""
        lines = [f"k4 = {self.number(threefry.PARITY, uint32).text} ^ k0 ^ k1 ^ k2 ^ k3"]
        for step in threefry.steps(rounds):
            match step:
                case threefry.Mix(i, j, rotation):
                    lines.append(f"x{i} = x{i} + x{j}")
                    lines.append(f"x{j} = ((x{j} << {rotation}) | (x{j} >> {32 - rotation})) ^ x{i}")
                case threefry.Inject(lane, word, number):
                    lines.append(f"x{lane} = x{lane} + k{word}{f' + {number}' if number else ''}")
        lines.append("odd = (lane & 1) != 0")
        lines.append("return tl.where((lane & 2) != 0, tl.where(odd, x3, x2), tl.where(odd, x1, x0))")
        return self.define(f"_threefry_{rounds}", "k0, k1, k2, k3, x0, x1, x2, x3, lane", "\n".join(lines))

    def combine_function(self, op: Op, precision: Precision) -> str:
        """The combine function of `tl.reduce` for an operation."""
        x, y = BlockValue("x", precision), BlockValue("y", precision)
        body = f"return {strip_parentheses(self.apply(op, (x, y)).text)}"
        kind = "" if op.name in ("add", "mul") and precision.family is not Family.BOOL else f"_{short_name(precision)}"
        return self.define(f"_combine_{op.name}{kind}", "x, y", body)

"""Emits primitive operations, with the same results as NumPy.

Operands are float, double or integers; narrower floats have been converted before. `where` and logic are emitted by
`scalar`. No operation traps: integer division by zero returns zero, and integer overflow wraps.
"""

from __future__ import annotations

from ocannl.backend import CompileError
from ocannl.codegen.numbers import is_signed
from ocannl.ir.ops import Op
from ocannl.ir.precision import Family, Precision, uint8, uint32
from ocannl_backend_llvm.builder import MANGLED_TYPES, Builder
from ocannl_backend_llvm.convert import is_true
from ocannl_backend_llvm.threefry import ROUNDS, threefry
from ocannl_backend_llvm.types import LLVM_TYPES

INTRINSIC = {
    "abs": "fabs", "trunc": "trunc", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin",
    "cos": "cos", "tanh": "tanh", "sqrt": "sqrt", "pow": "pow", "fma": "fmuladd",
}  # fmt: skip
LIBRARY = frozenset({"atan", "atan2", "erf", "erfc", "lgamma"})
"""Functions of the C mathematical library that are not intrinsics of every version of LLVM."""
BINARY_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
BINARY_INTEGER = {
    "add": "add", "sub": "sub", "mul": "mul", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip


def compare(b: Builder, name: str, precision: Precision, x: str, y: str) -> str:
    """An i1; of the relations, only `ne` holds if an operand is NaN."""
    type_ = LLVM_TYPES[precision]
    if precision.is_float:
        return b.test(f"fcmp {'une' if name == 'ne' else f'o{name}'}", type_, x, y)
    sign = "" if name in ("eq", "ne") else "s" if is_signed(precision) else "u"
    return b.test(f"icmp {sign}{name}", type_, x, y)


def apply(b: Builder, op: Op, precision: Precision, args: tuple[str, ...]) -> str:
    """Applies an operation to operands of an arithmetic type."""
    if op.name in ("id", "fst"):
        return args[0]
    if op.name == "snd":
        return args[1]
    if precision.is_float:
        return _apply_float(b, op, precision, args)
    if precision.family is Family.BOOL:
        number = _apply_integer(b, op, uint8, args)
        return b.cast("zext", is_true(b, number, uint8), "i1", "i8")
    return _apply_integer(b, op, precision, args)


def power(b: Builder, precision: Precision, x: str, exponent: int) -> str:
    """Raises `x` to a small constant power by repeated squaring."""
    if exponent == 0:
        return "1.0" if precision.is_float else "1"
    mul = "fmul" if precision.is_float else "mul"
    out, square = "", x
    while exponent:
        if exponent & 1:
            out = b.op(mul, LLVM_TYPES[precision], out, square) if out else square
        exponent >>= 1
        if exponent:
            square = b.op(mul, LLVM_TYPES[precision], square, square)
    return out


# ------------------------------------------------------------------------------------------------------------- floats


def _apply_float(b: Builder, op: Op, precision: Precision, args: tuple[str, ...]) -> str:
    t, x = LLVM_TYPES[precision], args[0]
    match op.name:
        case name if name in BINARY_FLOAT:
            return b.op(BINARY_FLOAT[name], t, *args)
        case name if name in INTRINSIC:
            return b.intrinsic(INTRINSIC[name], t, *args)
        case name if name in LIBRARY:
            function = name if t == "double" else f"{name}f"
            b.module.declare(function, t, (t,) * len(args))
            return b.call(t, function, t, *args)
        case "neg":
            return b.op("fneg", t, x)
        case "recip":
            return b.op("fdiv", t, "1.0", x)
        case "recip_sqrt":
            return b.op("fdiv", t, "1.0", b.intrinsic("sqrt", t, x))
        case "relu":  # NaN is not below zero
            return b.select(b.test("fcmp olt", t, x, "0.0"), t, "0.0", x)
        case "sat01":
            above = b.select(b.test("fcmp olt", t, x, "0.0"), t, "0.0", x)
            return b.select(b.test("fcmp ogt", t, above, "1.0"), t, "1.0", above)
        case "relu_gate":
            return b.select(b.test("fcmp ogt", t, x, "0.0"), t, args[1], "0.0")
        case "sat01_gate":
            inside = b.op("and", "i1", b.test("fcmp ogt", t, x, "0.0"), b.test("fcmp olt", t, x, "1.0"))
            return b.select(inside, t, args[1], "0.0")
        case "max" | "min":
            return _min_max(b, op, precision, *args)
        case "mod":
            return b.call(t, _helper(b, f"ocannl-mod.{MANGLED_TYPES[t]}", _MOD, t), t, *args)
        case _:
            raise _unsupported(op, precision)


def extreme_of_numbers(b: Builder, op: Op, precision: Precision, x: str, y: str) -> str:
    """A maximum or minimum, given that `y` is not NaN; NaN if `x` is."""
    t = LLVM_TYPES[precision]
    return b.select(b.test(f"fcmp {'olt' if op.name == 'max' else 'ogt'}", t, x, y), t, y, x)


def _min_max(b: Builder, op: Op, precision: Precision, x: str, y: str) -> str:
    """A maximum or minimum that propagates NaN."""
    if not x.startswith("%"):
        x, y = y, x
    result = extreme_of_numbers(b, op, precision, x, y)
    if y.startswith(("%", "0x7FF")):
        t = LLVM_TYPES[precision]
        return b.select(b.test("fcmp uno", t, y, "0.0"), t, y, result)
    return result


_MOD = """\
define TYPE @HELPER(TYPE %x, TYPE %y) nounwind memory(none) {
  %rest = frem TYPE %x, %y
  %rest.below = fcmp olt TYPE %rest, 0.0
  %y.below = fcmp olt TYPE %y, 0.0
  %differ = xor i1 %rest.below, %y.below
  %is.rest = fcmp une TYPE %rest, 0.0
  %move = and i1 %differ, %is.rest
  %moved = fadd TYPE %rest, %y
  %number = select i1 %move, TYPE %moved, TYPE %rest
  %zero = select i1 %y.below, TYPE -0.0, TYPE 0.0
  %is.zero = fcmp oeq TYPE %rest, 0.0
  %result = select i1 %is.zero, TYPE %zero, TYPE %number
  ret TYPE %result
}
"""


# ----------------------------------------------------------------------------------------------------------- integers


def _apply_integer(b: Builder, op: Op, precision: Precision, args: tuple[str, ...]) -> str:
    t, x, signed = LLVM_TYPES[precision], args[0], is_signed(precision)
    low, high = ("smin", "smax") if signed else ("umin", "umax")
    match op.name:
        case name if name in BINARY_INTEGER:
            return b.op(BINARY_INTEGER[name], t, *args)
        case "neg":
            return b.op("sub", t, "0", x)
        case "abs":
            return b.intrinsic("abs", t, x, suffix="i1 false") if signed else x
        case "trunc":
            return x
        case "relu":
            return b.intrinsic("smax", t, x, "0") if signed else x
        case "sat01":
            return b.intrinsic(low, t, b.intrinsic("smax", t, x, "0") if signed else x, "1")
        case "relu_gate":
            return b.select(compare(b, "gt", precision, x, "0"), t, args[1], "0")
        case "sat01_gate":  # no integer lies strictly between 0 and 1
            return "0"
        case "max":
            return b.intrinsic(high, t, *args)
        case "min":
            return b.intrinsic(low, t, *args)
        case "fma":
            return b.op("add", t, b.op("mul", t, x, args[1]), args[2])
        case "left_shift" | "right_shift" as name:
            return _shift(b, name == "left_shift", precision, *args)
        case name if name in ROUNDS and precision is uint32:
            return threefry(b, ROUNDS[name], args)
        case "div" | "mod" | "pow" as name:
            sign, text = ("s", _SIGNED[name]) if signed else ("u", _UNSIGNED[name])
            return b.call(t, _helper(b, f"ocannl-{name}.{sign}{t[1:]}", text, t), t, *args)
        case _:
            raise _unsupported(op, precision)


def _shift(b: Builder, left: bool, precision: Precision, x: str, count: str) -> str:
    """Shifts by any count; counts of at least the width shift out all bits, except for copies of the sign bit."""
    t, bits = LLVM_TYPES[precision], 8 * precision.nbytes
    signed = is_signed(precision) and not left
    opcode = "shl" if left else "ashr" if signed else "lshr"
    if not count.startswith("%"):  # a constant
        if 0 <= int(count) < bits:
            return b.op(opcode, t, x, count)
        return b.op(opcode, t, x, str(bits - 1)) if signed else "0"
    inside = b.test("icmp ult", t, count, str(bits))
    moved = b.op(opcode, t, x, b.select(inside, t, count, str(bits - 1)))
    return moved if signed else b.select(inside, t, moved, "0")


def _helper(b: Builder, name: str, text: str, type_: str) -> str:
    if not b.module.has(name):
        b.module.define(name, text.replace("HELPER", name).replace("TYPE", type_))
    return name


def _unsupported(op: Op, precision: Precision) -> CompileError:
    return CompileError(f"`{op.name}` has no meaning in {precision.name}: convert its operands to a float type")


_DIVISOR = """\
define TYPE @HELPER(TYPE %x, TYPE %y) nounwind memory(none) {
  %is.zero = icmp eq TYPE %y, 0
  %is.minus = icmp eq TYPE %y, -1
  %traps = or i1 %is.zero, %is.minus
  %safe = select i1 %traps, TYPE 1, TYPE %y
"""
_SIGNED = {
    "div": _DIVISOR
    + """\
  %quotient = sdiv TYPE %x, %safe
  %negated = sub TYPE 0, %x
  %number = select i1 %is.minus, TYPE %negated, TYPE %quotient
  %result = select i1 %is.zero, TYPE 0, TYPE %number
  ret TYPE %result
}
""",
    "mod": _DIVISOR
    + """\
  %rest = srem TYPE %x, %safe
  %signs = xor TYPE %rest, %safe
  %differ = icmp slt TYPE %signs, 0
  %is.rest = icmp ne TYPE %rest, 0
  %move = and i1 %differ, %is.rest
  %moved = add TYPE %rest, %safe
  %result = select i1 %move, TYPE %moved, TYPE %rest
  ret TYPE %result
}
""",
}
_UNSIGNED_DIVISOR = """\
define TYPE @HELPER(TYPE %x, TYPE %y) nounwind memory(none) {
  %is.zero = icmp eq TYPE %y, 0
  %safe = select i1 %is.zero, TYPE 1, TYPE %y
"""
_UNSIGNED = {
    "div": _UNSIGNED_DIVISOR
    + """\
  %quotient = udiv TYPE %x, %safe
  %result = select i1 %is.zero, TYPE 0, TYPE %quotient
  ret TYPE %result
}
""",
    "mod": _UNSIGNED_DIVISOR
    + """\
  %rest = urem TYPE %x, %safe
  ret TYPE %rest
}
""",
}
_POWER = """\
define TYPE @HELPER(TYPE %x, TYPE %n) nounwind memory(none) {
start:
  br label %loop
loop:
  %left = phi TYPE [ %n, %start ], [ %fewer, %loop ]
  %square = phi TYPE [ %x, %start ], [ %next, %loop ]
  %product = phi TYPE [ 1, %start ], [ %more, %loop ]
  %bit = trunc TYPE %left to i1
  %factor = select i1 %bit, TYPE %square, TYPE 1
  %more = mul TYPE %product, %factor
  %next = mul TYPE %square, %square
  %fewer = lshr TYPE %left, 1
  %again = icmp ne TYPE %fewer, 0
  br i1 %again, label %loop, label %done
done:
"""
_UNSIGNED["pow"] = f"{_POWER}  ret TYPE %more\n}}\n"
_SIGNED["pow"] = (
    _POWER
    + """\
  %inverse = icmp slt TYPE %n, 0
  %shifted = add TYPE %x, 1
  %is.large = icmp uge TYPE %shifted, 3
  %is.fraction = and i1 %inverse, %is.large
  %result = select i1 %is.fraction, TYPE 0, TYPE %more
  ret TYPE %result
}
"""
)

"""Primitive operations as operators of ONNX: a row per operation, which computes in the carrier of its type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ocannl.ir import threefry
from ocannl.ir.loops import Apply, Cast, Const, Expr, IndexValue, Load, When
from ocannl.ir.ops import Domain
from ocannl.ir.precision import Precision, bool_, int32, int64, uint32, uint64
from ocannl.lower.types import TRUTH
from ocannl_onnx.exporting.grids import Grid, Grids, NoForm, carrier, require_order, where
from ocannl_onnx.exporting.loads import inside

Rule = Callable[["Pointwise", Sequence[Grid], Precision], Grid]


class Pointwise:
    """Writes the operators of formulas. `load` reads cells of nodes, `index` computes values of indices."""

    def __init__(self, grids: Grids, load: Callable[[Load, float | None], Grid], index: Callable[[IndexValue], Grid]):
        self.grids = grids
        self._load, self._index = load, index

    def value(self, expr: Expr) -> Grid:
        """The values of an expression over the loops that it depends on."""
        match expr:
            case Const(number, precision):
                return self.number(number, precision)
            case IndexValue(_, precision):
                return self.grids.converted(self._index(expr), precision)
            case Load():
                return self._load(expr, None)
            case When(_, Load() as load, Const(number, _)):
                return self._load(load, number)
            case When(_, Cast(Load() as load, precision), Const(number, _)):
                return self.grids.converted(self._load(load, number), precision)
            case Cast(Apply(op, _) as inner, precision) if op.name in TRUTH:
                return self.grids.converted(self.truth(inner), precision)
            case Cast(inner, precision):
                return self.grids.converted(self.value(inner), precision)
            case Apply(op, args):
                return self._applied(op.name, op.domain, expr, args)
        raise NoForm(f"{type(expr).__name__} has no form in ONNX")

    def number(self, value: float, kind: Precision) -> Grid:
        array = np.array(value) if kind.is_float else np.array(int(value))
        return self.grids.constant(array.astype(carrier(kind).numpy), (), kind)

    def truth(self, expr: Expr) -> Grid:
        """Whether the value is not 0."""
        if isinstance(expr, Apply) and expr.op.name in TRUTH:
            return self._truth(expr.op.name, expr.args)
        if isinstance(expr, Cast) and isinstance(expr.value, Apply) and expr.value.op.name in TRUTH:
            return self.truth(expr.value)
        return self.grids.converted(self.value(expr), bool_)

    def _truth(self, name: str, args: Sequence[Expr]) -> Grid:
        if name in ("and", "or", "not"):
            return self.op(name.capitalize(), [self.truth(arg) for arg in args], bool_)
        return self.compare(name, [self.value(arg) for arg in args])

    def compare(self, name: str, values: Sequence[Grid]) -> Grid:
        """A comparison, or a logical operation, of values of unit type; the result has type bool."""
        kind = values[0].kind
        if name in ("and", "or"):
            return self.op(name.capitalize(), [self.grids.converted(value, bool_) for value in values], bool_)
        if kind is bool_:
            values = [self.grids.converted(value, int32) for value in values]
        if name not in ("eq", "ne"):
            require_order(name, kind)
        if name == "ne":
            return self.op("Not", [self.op("Equal", values, bool_)], bool_)
        return self.op(_COMPARISONS[name], values, bool_)

    def _applied(self, name: str, domain: Domain, expr: Apply, args: Sequence[Expr]) -> Grid:
        if name in TRUTH:
            return self.grids.converted(self.truth(expr), expr.precision)
        if name == "where":
            return self.where(self.truth(args[0]), *(self.value(arg) for arg in args[1:]))
        if name.startswith("threefry4x32_"):
            return threefry_word(self, int(name.rpartition("_")[2]), [self.value(arg) for arg in args])
        if name in ("relu_gate", "sat01_gate"):
            return self.gate(name, *(self.value(arg) for arg in args))
        return self.apply(name, [self.value(arg) for arg in args])

    def apply(self, name: str, operands: Sequence[Grid]) -> Grid:
        """A primitive operation of values of unit type."""
        kind = operands[0].kind
        if kind is bool_ and name in _LOGICAL:
            return self.op(_LOGICAL[name], operands, bool_)
        if name not in _MODULAR:
            require_order(name, kind)
        if name in _DIRECT:
            return self.grids.wrapped(self.op(_DIRECT[name], operands, kind))
        if name not in _RULES:
            raise NoForm(f"`{name}` is no operator of ONNX")
        return self.grids.wrapped(_RULES[name](self, operands, kind))

    def where(self, condition: Grid, if_true: Grid, if_false: Grid) -> Grid:
        return where(self.grids, condition, if_true, if_false)

    def op(self, operator: str, operands: Sequence[Grid], kind: Precision, **attributes: int) -> Grid:
        return self.grids.elementwise(operator, operands, kind, **attributes)

    def gate(self, name: str, x: Grid, y: Grid) -> Grid:
        require_order(name, x.kind)
        zero = self.number(0, x.kind)
        is_open = self.op("Greater", [x, zero], bool_)
        if name == "sat01_gate":
            is_open = self.op("And", [is_open, self.op("Less", [x, self.number(1, x.kind)], bool_)], bool_)
        return self.where(is_open, y, self.number(0, y.kind))


def threefry_word(p: Pointwise, rounds: int, operands: Sequence[Grid]) -> Grid:
    """One word of Threefry-4x32, in integers of 64 bits."""
    mask, parity = (p.number(value, uint32) for value in (0xFFFFFFFF, threefry.PARITY))

    def op(operator: str, *xs: Grid) -> Grid:
        return p.op(operator, xs, uint32)

    def add(x: Grid, y: Grid) -> Grid:
        return op("BitwiseAnd", op("Add", x, y), mask)

    schedule, x = list(operands[:4]), list(operands[4:8])
    for key in operands[:4]:
        parity = op("BitwiseXor", parity, key)
    schedule.append(parity)
    for step in threefry.steps(rounds):
        match step:
            case threefry.Mix(left, right, rotation):
                x[left] = add(x[left], x[right])
                shifted = op("Mul", x[right], p.number(1 << rotation, uint32))
                low, high = op("BitwiseAnd", shifted, mask), op("Div", shifted, p.number(1 << 32, uint32))
                x[right] = op("BitwiseXor", op("Add", low, high), x[left])
            case threefry.Inject(lane, word, number):
                x[lane] = add(add(x[lane], schedule[word]), p.number(number, uint32))
    chosen = op("BitwiseAnd", operands[8], p.number(3, uint32))
    result = x[3]
    for n in range(3):
        result = p.where(p.op("Equal", [chosen, p.number(n, uint32)], bool_), x[n], result)
    return result


_COMPARISONS = {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal",
}  # fmt: skip
_LOGICAL = {"max": "Or", "min": "And"}
_MODULAR = frozenset(
    ["id", "add", "sub", "mul", "neg", "fst", "snd", "fma", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift"]
)
"""Operations whose results modulo 2**64 do not depend on the signs of the operands."""

_DIRECT = {
    "abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "atan": "Atan", "tanh": "Tanh",
    "erf": "Erf", "sqrt": "Sqrt", "recip": "Reciprocal", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div",
    "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
}  # fmt: skip


def _relu(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    return p.op("Relu", xs, kind) if kind.is_float else p.op("Max", [*xs, p.number(0, kind)], kind)


def _clip(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    limits = (p.number(limit, kind).name for limit in (0, 1))
    return Grid(p.grids.builder.node("Clip", xs[0].name, *limits), xs[0].axes, kind)


def _trunc(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    negative = p.op("Less", [*xs, p.number(0, kind)], bool_)
    return p.where(negative, p.op("Ceil", xs, kind), p.op("Floor", xs, kind))


def _exp2(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    return p.op("Pow", [p.number(2, kind), *xs], kind)


def _log2(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    return p.op("Mul", [p.op("Log", xs, kind), p.number(1 / math.log(2), kind)], kind)


def _recip_sqrt(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    return p.op("Reciprocal", [p.op("Sqrt", xs, kind)], kind)


def _pow(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    base, exponent = xs
    array = p.grids.builder.array_of(exponent.name)
    if not kind.is_float:
        return _integer_power(p, base, exponent, kind)
    if array is not None and array.ndim == 0 and array == 2:
        return p.op("Mul", [base, base], kind)
    return p.op("Pow", xs, kind)


def _integer_power(p: Pointwise, base: Grid, exponent: Grid, kind: Precision) -> Grid:
    """The power by repeated squaring, because runtimes compute powers in floats. Those with negative exponents are 0,
    except of 1 and -1."""
    zero, unit = p.number(0, kind), p.number(1, kind)
    array = p.grids.builder.array_of(exponent.name)
    is_natural = array is not None and array.min(initial=0) >= 0
    bits = _bits(kind) if array is None or not is_natural else int(array.max(initial=0)).bit_length()
    result, square = unit, base
    for n in range(bits):
        square = square if n == 0 else p.op("Mul", [square, square], kind)
        product = square if n == 0 else p.op("Mul", [result, square], kind)
        if array is not None and array.ndim == 0:
            result = product if int(array) >> n & 1 else result
        else:
            bit = p.op("BitwiseAnd", [exponent, p.number(1 << n, kind)], kind)
            result = p.where(p.op("Equal", [bit, zero], bool_), result, product)
    if is_natural:
        return result
    is_inverse = p.op("Less", [exponent, zero], bool_)
    is_rounded = p.op("Not", [p.op("Equal", [p.op("Abs", [base], kind), unit], bool_)], bool_)
    return p.where(p.op("And", [is_inverse, is_rounded], bool_), zero, result)


def _mod(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    """The remainder with the sign of the divisor; of integers by 0, 0."""
    x, y = xs
    zero = p.number(0, kind)
    if not kind.is_float:
        is_zero = p.op("Equal", [y, zero], bool_)
        divisor = p.where(is_zero, p.number(1, kind), y)
        return p.where(is_zero, zero, p.op("Mod", [x, divisor], kind))
    remainder = p.op("Mod", xs, kind, fmod=1)
    differs = p.op("Less", [p.op("Mul", [p.op("Sign", [remainder], kind), p.op("Sign", [y], kind)], kind), zero], bool_)
    return p.where(differs, p.op("Add", [remainder, y], kind), remainder)


def _atan2(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    """The angle from that of the quotient. Two infinities count as their signs, zeros as positive."""
    are_infinite = p.op("And", [p.op("IsInf", [x], bool_) for x in xs], bool_)
    y, x = (p.where(are_infinite, p.op("Sign", [x], kind), x) for x in xs)
    zero, pi = p.number(0, kind), p.number(math.pi, kind)
    on_axis = p.op("Equal", [x, zero], bool_)
    angle = p.op("Atan", [p.op("Div", [y, p.where(on_axis, zero, x)], kind)], kind)
    signed_pi = p.where(p.op("GreaterOrEqual", [y, zero], bool_), pi, p.op("Neg", [pi], kind))
    angle = p.where(p.op("Less", [x, zero], bool_), p.op("Add", [angle, signed_pi], kind), angle)
    is_origin = p.op("And", [on_axis, p.op("Equal", [y, zero], bool_)], bool_)
    return p.where(is_origin, zero, angle)


def _erfc(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    """1 minus the error function; in float32, from 0.5 the formula of Press et al. (1992, section 6.2), so that the
    relative error is small."""
    (x,) = xs
    unit = p.number(1, kind)
    near = p.op("Sub", [unit, p.op("Erf", [x], kind)], kind)
    if kind.nbytes > 4:
        return near
    t = p.op("Reciprocal", [p.op("Add", [p.op("Mul", [x, p.number(0.5, kind)], kind), unit], kind)], kind)
    exponent = p.number(_ERFC[-1], kind)
    for coefficient in _ERFC[-2::-1]:
        exponent = p.op("Add", [p.op("Mul", [exponent, t], kind), p.number(coefficient, kind)], kind)
    exponent = p.op("Sub", [exponent, p.op("Mul", [x, x], kind)], kind)
    far = p.op("Mul", [t, p.op("Exp", [exponent], kind)], kind)
    return p.where(p.op("Less", [x, p.number(0.5, kind)], bool_), near, far)


_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip


def _fma(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
    return p.op("Add", [p.op("Mul", xs[:2], kind), xs[2]], kind)


def _extreme(operator: str) -> Rule:
    return lambda p, xs, kind: p.op(operator, xs, kind)


def _operand(number: int) -> Rule:
    """One operand over the loops of both."""
    def rule(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
        return xs[number]

    return rule


def _bits(kind: Precision) -> int:
    return 8 * kind.nbytes


def _shift(direction: str) -> Rule:
    """Shifts in unsigned numbers of 64 bits; amounts out of the range of bits shift out all of them."""

    def rule(p: Pointwise, xs: Sequence[Grid], kind: Precision) -> Grid:
        x, amount = (Grid(p.grids.cast(g.name, carrier(kind), int64), g.axes, int64) for g in xs)
        if kind is uint64 and direction == "RIGHT":
            raise NoForm("`right_shift` of numbers of type uint64")
        last = _bits(kind) - 1
        is_inside = inside(p.grids, amount, 0, last)
        zero = p.number(0, int64)
        amount = p.where(is_inside, amount, zero)
        negative = p.op("Less", [x, zero], bool_)
        source = p.where(negative, p.op("BitwiseNot", [x], int64), x) if direction == "RIGHT" else x
        unsigned = [Grid(p.grids.cast(g.name, int64, uint64), g.axes, uint64) for g in (source, amount)]
        shifted = p.op("BitShift", unsigned, uint64, direction=direction)  # type: ignore[arg-type]
        result = Grid(p.grids.cast(shifted.name, uint64, int64), shifted.axes, int64)
        if direction == "RIGHT":
            result = p.where(is_inside, result, zero)
            result = p.where(negative, p.op("BitwiseNot", [result], int64), result)
        else:
            result = p.where(is_inside, result, zero)
        return Grid(p.grids.cast(result.name, int64, carrier(kind)), result.axes, kind)

    return rule


_RULES: dict[str, Rule] = {
    "id": _operand(0), "fst": _operand(0), "snd": _operand(1), "relu": _relu, "sat01": _clip, "trunc": _trunc,
    "exp2": _exp2, "log2": _log2, "recip_sqrt": _recip_sqrt, "pow": _pow, "mod": _mod, "atan2": _atan2, "erfc": _erfc,
    "fma": _fma, "max": _extreme("Max"), "min": _extreme("Min"),
    "left_shift": _shift("LEFT"), "right_shift": _shift("RIGHT"),
}  # fmt: skip

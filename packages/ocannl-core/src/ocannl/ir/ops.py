"""The primitive operations: arity, neutral element, algebraic laws, and semantics as NumPy functions.

Results are those of NumPy, with these rules: NaN propagates through `relu`, `max`, `min` and `sat01`; `mod` has the
sign of its right operand; comparisons and logical operations return 1 or 0 in the type of their operands. A shift by a
negative amount, or by at least the width of the type, shifts out all bits. The sign of a zero result is unspecified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from math import copysign, isfinite
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.ir import special_functions, threefry
from ocannl.ir.precision import Family, Precision, integer_limits, largest_finite

Array = Any  # any array or scalar that NumPy computes with


class Domain(Enum):
    ANY = "any"  # every number type
    FLOAT = "float"  # integers are converted to the default float type first
    INTEGER = "integer"
    WORD = "word"  # uint32, which integers of other types are converted to


@dataclass(frozen=True, slots=True)
class Op:
    """One row of the table; `doc` describes the result.

    `neutral` is the initial value of an accumulation, see `neutral_element`. A `monoid` is associative and
    commutative, so that its reductions may be reordered; `ufunc` reduces and scatters with it in NumPy.
    """

    name: str
    arity: int
    doc: str = field(compare=False, repr=False)
    numpy: Callable[..., Array] = field(compare=False, repr=False)
    symbol: str = ""
    domain: Domain = Domain.ANY
    neutral: float | None = None
    monoid: bool = False
    idempotent: bool = False
    ufunc: np.ufunc | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other


def _as_operand(test: Callable[..., Array]) -> Callable[..., Array]:
    """Converts a truth value to 1 or 0 in the type of the first operand."""

    def valued(*xs: Array) -> Array:
        return np.asarray(test(*xs)).astype(np.asarray(xs[0]).dtype)

    return valued


def _relu(x: Array) -> Array:
    return np.maximum(x, np.zeros((), np.asarray(x).dtype))


def _sat01(x: Array) -> Array:
    kind = np.asarray(x).dtype
    return np.minimum(np.maximum(x, np.zeros((), kind)), np.ones((), kind))


def _relu_gate(x: Array, y: Array) -> Array:
    return np.where(x > 0, y, np.zeros((), np.asarray(y).dtype))


def _sat01_gate(x: Array, y: Array) -> Array:
    return np.where((x > 0) & (x < 1), y, np.zeros((), np.asarray(y).dtype))


def _div(x: Array, y: Array) -> Array:
    return (np.divide(x, y)).astype(np.asarray(x).dtype)


def _pow(x: Array, y: Array) -> Array:
    out = np.power(x, y)
    if np.asarray(x).dtype.kind != "f":
        return out
    # NumPy computes x**0.5 as a square root, which differs from the power at minus infinity
    return np.where(np.logical_and(y == 0.5, x == -np.inf), np.abs(x), out)


_INF = float("inf")

OPS: tuple[Op, ...] = (
    # one operand
    Op("id", 1, "The value itself.", lambda x: x),
    Op("neg", 1, "The value with the other sign.", np.negative, "-"),
    Op("abs", 1, "The absolute value.", np.abs),
    Op("relu", 1, "The larger of the value and 0; NaN stays.", _relu),
    Op("sat01", 1, "The value clipped to [0, 1]; NaN stays.", _sat01),
    Op("not", 1, "1 where the value is 0, else 0.", _as_operand(lambda x: x == 0), "!"),
    Op("trunc", 1, "The integral part, towards 0.", np.trunc, domain=Domain.FLOAT),
    Op("exp", 1, "Euler's number to the power of the value.", np.exp, domain=Domain.FLOAT),
    Op("exp2", 1, "2 to the power of the value.", np.exp2, domain=Domain.FLOAT),
    Op("log", 1, "The natural logarithm.", np.log, domain=Domain.FLOAT),
    Op("log2", 1, "The logarithm to base 2.", np.log2, domain=Domain.FLOAT),
    Op("sin", 1, "The sine, of radians.", np.sin, domain=Domain.FLOAT),
    Op("cos", 1, "The cosine, of radians.", np.cos, domain=Domain.FLOAT),
    Op("atan", 1, "The inverse tangent, in radians.", np.arctan, domain=Domain.FLOAT),
    Op("tanh", 1, "The hyperbolic tangent.", np.tanh, domain=Domain.FLOAT),
    Op("erf", 1, "The error function.", special_functions.erf, domain=Domain.FLOAT),
    Op("erfc", 1, "1 minus the error function, accurate where that is close to 1.",
       special_functions.erfc, domain=Domain.FLOAT),
    Op("lgamma", 1, "The logarithm of the absolute value of the gamma function.",
       special_functions.lgamma, domain=Domain.FLOAT),
    Op("sqrt", 1, "The square root.", np.sqrt, domain=Domain.FLOAT),
    Op("recip", 1, "1 divided by the value.", lambda x: np.ones((), np.asarray(x).dtype) / x, domain=Domain.FLOAT),
    Op("recip_sqrt", 1, "1 divided by the square root.",
       lambda x: np.ones((), np.asarray(x).dtype) / np.sqrt(x), domain=Domain.FLOAT),
    # two operands
    Op("add", 2, "The sum.", np.add, "+", neutral=0, monoid=True, ufunc=np.add),
    Op("sub", 2, "The difference.", np.subtract, "-", neutral=0),
    Op("mul", 2, "The product.", np.multiply, "*", neutral=1, monoid=True, ufunc=np.multiply),
    Op("div", 2, "The quotient; of integers, as float32.", _div, "/", domain=Domain.FLOAT, neutral=1),
    Op("pow", 2, "The first to the power of the second.", _pow, "**", neutral=1),
    Op("mod", 2, "The remainder, with the sign of the second.", np.mod, "%"),
    Op("atan2", 2, "The angle of the point with the second as abscissa and the first as ordinate, in radians.",
       np.arctan2, domain=Domain.FLOAT),
    Op("max", 2, "The larger of two; NaN if one is.",
       np.maximum, neutral=-_INF, monoid=True, idempotent=True, ufunc=np.maximum),
    Op("min", 2, "The smaller of two; NaN if one is.",
       np.minimum, neutral=_INF, monoid=True, idempotent=True, ufunc=np.minimum),
    Op("lt", 2, "1 where the first is less than the second, else 0.", _as_operand(np.less), "<"),
    Op("le", 2, "1 where the first is at most the second, else 0.", _as_operand(np.less_equal), "<="),
    Op("gt", 2, "1 where the first is greater than the second, else 0.", _as_operand(np.greater), ">"),
    Op("ge", 2, "1 where the first is at least the second, else 0.", _as_operand(np.greater_equal), ">="),
    Op("eq", 2, "1 where both are equal, else 0.", _as_operand(np.equal), "=="),
    Op("ne", 2, "1 where both differ, else 0.", _as_operand(np.not_equal), "!="),
    Op("and", 2, "1 where both are nonzero, else 0.",
       _as_operand(lambda x, y: (x != 0) & (y != 0)), "&&", neutral=1, monoid=True, ufunc=np.logical_and),
    Op("or", 2, "1 where one is nonzero, else 0.",
       _as_operand(lambda x, y: (x != 0) | (y != 0)), "||", neutral=0, monoid=True, ufunc=np.logical_or),
    Op("bitwise_and", 2, "The bits that are set in both.", np.bitwise_and, domain=Domain.INTEGER),
    Op("bitwise_or", 2, "The bits that are set in one.", np.bitwise_or, domain=Domain.INTEGER),
    Op("bitwise_xor", 2, "The bits that are set in exactly one.", np.bitwise_xor, domain=Domain.INTEGER),
    Op("left_shift", 2, "The first, shifted left by the second.", np.left_shift, domain=Domain.INTEGER),
    Op("right_shift", 2, "The first, shifted right by the second; copies of the sign bit fill it up.",
       np.right_shift, domain=Domain.INTEGER),
    Op("relu_gate", 2, "The second where the first is positive, else 0.", _relu_gate, neutral=1),
    Op("sat01_gate", 2, "The second where the first lies between 0 and 1, else 0.", _sat01_gate, neutral=0.5),
    Op("fst", 2, "The first.", lambda x, y: x),
    Op("snd", 2, "The second.", lambda x, y: y),
    # three operands
    Op("where", 3, "The second where the first is nonzero, else the third.", lambda c, x, y: np.where(c != 0, x, y)),
    Op("fma", 3, "The first times the second, plus the third.", lambda x, y, z: x * y + z),
    # nine operands
    *(Op(f"threefry4x32_{rounds}", 9, f"One word of Threefry-4x32, {rounds} rounds: four words of the key, four of the"
         " counter, and which word of the result.", partial(threefry.word, rounds), domain=Domain.WORD)
      for rounds in threefry.ROUNDS),
)

BY_NAME: dict[str, Op] = {op.name: op for op in OPS}
ADD, SUB, MUL, DIV, MAX, MIN = (BY_NAME[n] for n in ("add", "sub", "mul", "div", "max", "min"))
AND, OR, WHERE, ID, NEG, POW = (BY_NAME[n] for n in ("and", "or", "where", "id", "neg", "pow"))


@cache
def neutral_element(op: Op, precision: Precision) -> int | float:
    """The value from which an accumulation starts: the identity of a monoid. In types that cannot represent infinities,
    the identity of `min` and `max` is the largest or smallest finite value. Raises `CodeError` if `op` has none."""
    if op.neutral is None:
        raise CodeError(f"`{op}` has no neutral element to start from; write the statement without clearing")
    match precision.family:
        case Family.BOOL:
            return int(op.neutral > 0)
        case Family.FLOAT if isfinite(op.neutral) or precision.has_infinities:
            return float(op.neutral)
        case Family.FLOAT:
            return copysign(largest_finite(precision), op.neutral)
        case _:
            low, high = integer_limits(precision)
            return int(min(max(op.neutral, low), high))

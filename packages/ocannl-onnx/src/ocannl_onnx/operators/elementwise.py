"""Elementwise operators: arithmetic, comparisons, logic, bits, activations and casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import element_name, element_type_of, element_type_of_array, precision_of
from ocannl_onnx.layout import reshaped
from ocannl_onnx.registry import operator

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
"""Largest finite numbers of the types to which casts saturate."""

UNARY: dict[str, tuple[str, Callable[[oc.Tensor], oc.Tensor]]] = {
    "Abs": ("oc.abs(x)", oc.abs),
    "Acos": ("oc.acos(x)", oc.acos),
    "Acosh": ("oc.acosh(x)", oc.acosh),
    "Asin": ("oc.asin(x)", oc.asin),
    "Asinh": ("oc.asinh(x)", oc.asinh),
    "Atan": ("oc.atan(x)", oc.atan),
    "Atanh": ("oc.atanh(x)", oc.atanh),
    "BitwiseNot": ("oc.bitwise_xor(x, -1)", lambda x: _inverted(x)),
    "Ceil": ("oc.ceil(x)", oc.ceil),
    "Cos": ("oc.cos(x)", oc.cos),
    "Cosh": ("oc.cosh(x)", oc.cosh),
    "Erf": ("oc.erf(x)", oc.erf),
    "Exp": ("oc.exp(x)", oc.exp),
    "Floor": ("oc.floor(x)", oc.floor),
    "HardSwish": ("oc.hard_swish(x)", oc.hard_swish),
    "IsNaN": ("oc.isnan(x)", oc.isnan),
    "Log": ("oc.log(x)", oc.log),
    "Mish": ("oc.mish(x)", oc.mish),
    "Neg": ("-x", lambda x: -x),
    "Not": ("~x", lambda x: oc.not_(x)),
    "Reciprocal": ("oc.recip(x)", oc.recip),
    "Relu": ("oc.relu(x)", oc.relu),
    "Round": ("x.round()", lambda x: x.round()),
    "Sigmoid": ("oc.sigmoid(x)", oc.sigmoid),
    "Sign": ("oc.sign(x)", oc.sign),
    "Sin": ("oc.sin(x)", oc.sin),
    "Sinh": ("oc.sinh(x)", oc.sinh),
    "Softplus": ("oc.softplus(x)", oc.softplus),
    "Softsign": ("oc.softsign(x)", oc.softsign),
    "Sqrt": ("oc.sqrt(x)", oc.sqrt),
    "Tan": ("oc.tan(x)", oc.tan),
    "Tanh": ("oc.tanh(x)", oc.tanh),
}

BINARY: dict[str, tuple[str, Callable[[oc.Tensor, oc.Tensor], oc.Tensor]]] = {
    "Add": ("x + y", lambda x, y: x + y),
    "Sub": ("x - y", lambda x, y: x - y),
    "Mul": ("x * y", lambda x, y: x * y),
    "And": ("oc.and_(x, y)", oc.and_),
    "Or": ("oc.or_(x, y)", oc.or_),
    "Xor": ("oc.ne(x, y)", oc.ne),
    "BitwiseAnd": ("oc.bitwise_and(x, y)", oc.bitwise_and),
    "BitwiseOr": ("oc.bitwise_or(x, y)", oc.bitwise_or),
    "BitwiseXor": ("oc.bitwise_xor(x, y)", oc.bitwise_xor),
    "Equal": ("oc.eq(x, y)", oc.eq),
    "Greater": ("oc.gt(x, y)", oc.gt),
    "GreaterOrEqual": ("oc.ge(x, y)", oc.ge),
    "Less": ("oc.lt(x, y)", oc.lt),
    "LessOrEqual": ("oc.le(x, y)", oc.le),
    "PRelu": ("oc.prelu(x, slope)", lambda x, slope: oc.where(x < 0, slope * x, x)),
}

VARIADIC: dict[str, tuple[str, Callable[[oc.Tensor, oc.Tensor], oc.Tensor]]] = {
    "Sum": ("x + y + ...", lambda x, y: x + y),
    "Max": ("oc.maximum(x, y)", oc.maximum),
    "Min": ("oc.minimum(x, y)", oc.minimum),
}

ACTIVATIONS: dict[str, tuple[str, Callable[[oc.Tensor, NodeCall], oc.Tensor]]] = {
    "Celu": ("oc.celu(x, alpha=)", lambda x, call: oc.celu(x, alpha=call.attribute("alpha", 1.0))),
    "Elu": ("oc.elu(x, alpha=)", lambda x, call: oc.elu(x, alpha=call.attribute("alpha", 1.0))),
    "LeakyRelu": (
        "oc.where(x < 0, alpha * x, x)",
        lambda x, call: oc.where(x < 0, call.attribute("alpha", 0.01) * x, x),
    ),
    "Selu": (
        "gamma * oc.elu(x, alpha=)",
        lambda x, call: call.attribute("gamma", 1.0507010221481323)
        * oc.where(x > 0, x, call.attribute("alpha", 1.6732631921768188) * oc.expm1(oc.minimum(x, 0))),
    ),
    "HardSigmoid": (
        "oc.clip(alpha * x + beta, 0, 1)",
        lambda x, call: oc.clip(call.attribute("alpha", 0.2) * x + call.attribute("beta", 0.5), 0.0, 1.0),
    ),
    "ThresholdedRelu": (
        "oc.where(x > alpha, x, 0)",
        lambda x, call: oc.where(x > call.attribute("alpha", 1.0), x, 0.0),
    ),
    "Shrink": (
        "oc.where(x < -lambd, x + bias, oc.where(x > lambd, x - bias, 0))",
        lambda x, call: _shrunk(x, call.attribute("lambd", 0.5), call.attribute("bias", 0.0)),
    ),
    "Swish": ("x * oc.sigmoid(alpha * x)", lambda x, call: x * oc.sigmoid(call.attribute("alpha", 1.0) * x)),
    "Gelu": (
        "oc.gelu(x, approximate=)",
        lambda x, call: oc.gelu(x, approximate=call.attribute("approximate", "none")),
    ),
}


def _shrunk(x: oc.Tensor, lambd: float, bias: float) -> oc.Tensor:
    return oc.where(x < -lambd, x + bias, oc.where(x > lambd, x - bias, 0))


def _inverted(x: oc.Tensor) -> oc.Tensor:
    return oc.bitwise_xor(x, oc.tensor(np.array(-1).astype(x.dtype.numpy)))


def _unary(function: Callable[[oc.Tensor], oc.Tensor]) -> Callable[[NodeCall], oc.Tensor]:
    return lambda call: function(call.tensor(0))


def _binary(function: Callable[[oc.Tensor, oc.Tensor], oc.Tensor]) -> Callable[[NodeCall], oc.Tensor]:
    return lambda call: function(call.tensor(0), second_operand(call))


def second_operand(call: NodeCall) -> oc.Tensor:
    """The second operand of a binary operator. Before version 7 its axes are some of the first operand from the axis
    that an attribute names, or from the channels for the slopes of PRelu."""
    x, y = call.tensor(0), call.tensor(1)
    slopes = 1 if call.node.operator == "PRelu" and y.dims != (1,) else None
    axis = call.attribute("axis", slopes) if call.version < 7 else None
    if axis is None:
        return y
    following = len(x.dims) - call.position(axis, len(x.dims)) - len(y.dims)
    call.require(following >= 0, f"the axes {y.dims} of the second operand at axis {axis} of {x.dims}")
    return reshaped(y, (*y.dims, *[1] * following))


def _variadic(function: Callable[[oc.Tensor, oc.Tensor], oc.Tensor]) -> Callable[[NodeCall], oc.Tensor]:
    return lambda call: reduce(function, call.tensors())


def _activation(function: Callable[[oc.Tensor, NodeCall], oc.Tensor]) -> Callable[[NodeCall], oc.Tensor]:
    return lambda call: function(call.tensor(0), call)


for name, (spelling, unary) in UNARY.items():
    operator(name, spelling=spelling)(_unary(unary))
for name, (spelling, binary) in BINARY.items():
    operator(name, spelling=spelling)(_binary(binary))
for name, (spelling, binary) in VARIADIC.items():
    operator(name, spelling=spelling)(_variadic(binary))
for name, (spelling, activation) in ACTIVATIONS.items():
    operator(name, spelling=spelling)(_activation(activation))


def is_integer(x: oc.Tensor) -> bool:
    return np.dtype(x.dtype.numpy).kind in "iu"


@operator("Div", spelling="x / y; of integers the quotient rounded towards zero")
def div(call: NodeCall) -> oc.Tensor:
    x, y = call.tensor(0), second_operand(call)
    if not is_integer(x):
        return x / y
    if str(x.dtype) == "uint64":
        return _unsigned_quotient(x, y)
    return _quotient(x, y)


def _quotient(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    """The quotient of integers, rounded towards zero: in float64, and for 64 bits corrected by its remainder."""
    quotient = _float_quotient(x, y)
    if x.dtype.nbytes < 8:
        return quotient
    quotient = quotient + _float_quotient(x - quotient * y, y)
    remainder = x - quotient * y
    step = oc.sign(x) * oc.sign(y)
    is_beyond = oc.and_(oc.ne(remainder, 0), oc.ne(oc.sign(remainder), oc.sign(x)))
    quotient = oc.where(oc.cast(is_beyond, oc.bool), quotient - step, quotient)
    is_short = _negated_magnitude(x - quotient * y) <= _negated_magnitude(y)  # the least integer has no absolute value
    return oc.where(oc.cast(is_short, oc.bool), quotient + step, quotient)


def _negated_magnitude(x: oc.Tensor) -> oc.Tensor:
    return oc.where(oc.cast(x > 0, oc.bool), -x, x)


def _unsigned_quotient(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    """The quotient of half of `x` as a signed integer, doubled and corrected (Warren, Hacker's Delight, 9-3)."""
    half = oc.cast(oc.right_shift(x, 1), oc.int64)
    doubled = oc.left_shift(oc.cast(_quotient(half, oc.cast(y, oc.int64)), oc.uint64), 1)
    rounded = oc.where(oc.cast(x - doubled * y >= y, oc.bool), doubled + 1, doubled)
    is_large = oc.cast(oc.ne(oc.right_shift(y, 63), 0), oc.bool)
    return oc.where(is_large, oc.cast(x >= y, oc.uint64), rounded)


def _float_quotient(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    return oc.cast(oc.trunc(oc.div(oc.cast(x, oc.float64), oc.cast(y, oc.float64))), x.dtype)


@operator("Mean", spelling="(x + y + ...) / n")
def mean(call: NodeCall) -> oc.Tensor:
    return reduce(lambda x, y: x + y, call.tensors()) / len(call)


@operator("Mod", spelling="oc.mod(x, y), or oc.fmod(x, y) with fmod=1")
def mod(call: NodeCall) -> oc.Tensor:
    function = oc.fmod if call.attribute("fmod", 0) else oc.mod
    return function(call.tensor(0), call.tensor(1))


@operator("Pow", spelling="oc.pow(x, y)")
def pow_(call: NodeCall) -> oc.Tensor:
    x = call.tensor(0)
    exponent = call.static(1)
    if exponent is not None and exponent.ndim == 0 and float(exponent) in (0.5, 1.0, 2.0, 3.0) and not is_integer(x):
        return oc.pow(x, float(exponent))
    if is_integer(x):
        return _integer_power(x, second_operand(call))
    return oc.cast(oc.pow(x, oc.cast(second_operand(call), x.dtype)), x.dtype)


def _integer_power(x: oc.Tensor, exponent: oc.Tensor) -> oc.Tensor:
    """The power of integers: by repeated squaring for exponents from 0 to 63, in float64 for all other exponents."""
    power = oc.cast(oc.pow(oc.cast(x, oc.float64), oc.cast(exponent, oc.float64)), x.dtype)
    if not is_integer(exponent) or x.dtype.nbytes < 8:
        return power
    exponent = oc.cast(exponent, oc.int64)
    product, square = oc.tensor(np.ones((), x.dtype.numpy)), x
    for bit in range(6):
        is_set = oc.cast(oc.bitwise_and(oc.right_shift(exponent, bit), 1), oc.bool)
        product = product * oc.where(is_set, square, oc.tensor(np.ones((), x.dtype.numpy)))
        square = square * square
    is_small = oc.and_(exponent >= 0, exponent < 64)
    return oc.where(oc.cast(is_small, oc.bool), product, power)


@operator("BitShift", spelling="oc.left_shift(x, y) or oc.right_shift(x, y)")
def bit_shift(call: NodeCall) -> oc.Tensor:
    function = oc.left_shift if call.attribute("direction") == "LEFT" else oc.right_shift
    return function(call.tensor(0), call.tensor(1))


@operator("IsInf", spelling="oc.isinf(x)")
def isinf(call: NodeCall) -> oc.Tensor:
    x = call.tensor(0)
    positive, negative = call.attribute("detect_positive", 1), call.attribute("detect_negative", 1)
    if positive and negative:
        return oc.isinf(x)
    if positive or negative:
        return oc.eq(x, np.inf if positive else -np.inf)
    return oc.gt(oc.isinf(x), 1)


@operator("Clip", spelling="oc.clip(x, low, high)")
def clip(call: NodeCall) -> oc.Tensor:
    x = call.tensor(0)
    low = call.optional(1) if call.version >= 11 else call.attribute("min", None)
    high = call.optional(2) if call.version >= 11 else call.attribute("max", None)
    if low is not None:
        x = oc.maximum(x, low)
    return x if high is None else oc.minimum(x, high)


@operator("Where", spelling="oc.where(condition, x, y)")
def where(call: NodeCall) -> oc.Tensor:
    return oc.where(call.tensor(0), call.tensor(1), call.tensor(2))


@operator("Cast", spelling="oc.cast(x, dtype)", restrictions=("types that ocannl does not have",))
def cast(call: NodeCall) -> oc.Tensor:
    return _cast(call, call.attribute("to"))


@operator("CastLike", spelling="oc.cast(x, y.dtype)", restrictions=("types that ocannl does not have",))
def cast_like(call: NodeCall) -> oc.Tensor:
    like = call.static(1)
    return _cast(call, element_type_of_array(like) if like is not None else element_type_of(call.dtype(1)))


def _cast(call: NodeCall, element_type: int) -> oc.Tensor:
    target: Any = precision_of(element_type)
    call.require(target is not None, f"the type {element_name(element_type)}")
    x = call.tensor(0)
    if str(target) == "bool":
        return oc.cast(oc.ne(x, 0), oc.bool)
    if str(target) in LARGEST and call.attribute("saturate", 1):
        largest = LARGEST[str(target)]
        x = oc.clip(x, -largest, largest)  # infinities as well; NaN stays
    return oc.cast(x, target)

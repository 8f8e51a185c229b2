"""GELU: `x` times the probability that a standard normal variable is less than `x`."""

from __future__ import annotations

import math
from typing import Literal, cast

from ocannl.base.errors import CodeError
from ocannl.ir.precision import float64
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import (
    absolute,
    exp,
    fma,
    maximum,
    minimum,
    polynomial,
    precision_of,
    trunc,
    where,
)
from ocannl.lang.ops.elementwise_decorator import formula
from ocannl.lang.ops.primitives import PRIMITIVES

_GELU_MIN = -40.0  # the result is zero below

_ROOT_HIGH = 181 / 256  # an approximation of sqrt(1/2), whose product with a multiple of 1/64 is exact
_ROOT_LOW = 7.553118654752440084436e-05  # sqrt(1/2) - _ROOT_HIGH
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)


def _normal_cdf(x: Term) -> Term:
    """`erfc(z) / 2` for z = -x / sqrt(2). The tail is corrected by the rounding error of z, which changes `z * z`."""
    x = maximum(x, _GELU_MIN)
    z = x * -math.sqrt(0.5)
    high = trunc(x * 64.0) * (1.0 / 64.0)
    error = ((high * _ROOT_HIGH + z) + (x - high) * _ROOT_HIGH) + x * _ROOT_LOW
    value = 0.5 * term("erfc", z)
    return where(x < 0.0, value + value * ((z + z) * error), value)


def _normal_density(x: Term) -> Term:
    """`exp(-x**2 / 2) / sqrt(2 pi)`, with a split exponent as in `exp_of_minus_square`."""
    x = minimum(absolute(x), -_GELU_MIN)
    high = trunc(x * 16.0) * 0.0625
    return exp(-0.5 * (high * high)) * exp(0.5 * ((high - x) * (high + x))) * (1.0 / _ROOT_TWO_PI)


# --- float32 ---------------------------------------------------------------------------------------------------------

_MAX_MAGNITUDE = 14.5  # the result is 0 or x beyond
_ROUND_TO_32ND = 1.5 * 2**18  # adding and subtracting it rounds to a multiple of 1/32
_TAIL = (
    1.0463131666183472, -1.5353480577468872, 1.1120424270629883, -0.10542963445186615, -0.3351399600505829,
    0.024063842371106148, 0.15096250176429749, 0.04280659928917885, -0.11162195354700089, 0.026355799287557602,
)  # fmt: skip


def _magnitude(x: Term) -> Term:
    """`|x|`, whose derivative is 1 at 0."""
    return where(x < 0.0, -x, x)


def _tail(x: Term) -> tuple[Term, Term, Term]:
    """Returns e = exp(-a**2 / 2), t = a / (a + 3) and p for a = |x|, where the tail of the normal distribution above a
    is e p / (a + 3). p is a polynomial of t, with error 2**-25. The exponential is corrected by the rounding error of
    its exponent, which is computed from the exact square of a multiple of 1/16."""
    a = minimum(_magnitude(x), _MAX_MAGNITUDE)
    half = 0.5 * a
    exponent = half * a
    half_high = half + _ROUND_TO_32ND - _ROUND_TO_32ND
    high = half_high + half_high
    error = fma(a - high, half + half_high, fma(half_high, high, -exponent))
    exponential = exp(-exponent)
    t = a / (a + 3.0)
    return fma(exponential, -error, exponential), t, polynomial(t - 0.25, _TAIL)


def _slope(g: Term, v: Term, x: Term) -> Term:
    if precision_of(x) is float64:
        return g * (_normal_cdf(x) + x * _normal_density(x))
    exponential, t, p = _tail(x)
    below = exponential * (p * ((1.0 - t) * (1.0 / 3.0)) - _magnitude(x) * (1.0 / _ROOT_TWO_PI))  # the slope at -|x|
    return g * where(x < 0.0, below, 1.0 - below)


@formula(_slope)
def exact_gelu_(x: Term) -> Term:
    """`x * (1 + erf(x / sqrt(2))) / 2`.

    Grad:   the derivative of this formula, times `g`.
    """
    if precision_of(x) is float64:
        return x * _normal_cdf(x)
    exponential, t, p = _tail(x)
    return x * where(x > 0.0, 1.0, 0.0) - (t * p) * exponential  # NaN for -inf, as by the formula


def _tanh_gelu(x: Tensor) -> Tensor:
    tanh: Tensor = PRIMITIVES["tanh"](0.7978845608028654 * (x + 0.044715 * (x * x * x)))
    return 0.5 * x * (1.0 + tanh)


@composite
def gelu(x: object, *, approximate: Literal["tanh", "none"] = "tanh") -> Tensor:
    """`x` times the probability that a standard normal variable is less than `x`.

    With `approximate="tanh"`, `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))`, which differs by at most 5e-4. With
    `"none"`, the exact function, `0.5 x (1 + erf(x / sqrt(2)))`: the default of PyTorch.

    Shapes: `...|...->... => ...|...->...`.
    Grad:   the derivative of this formula, times `g`.
    Raises: CodeError for any other approximation.
    Source: Hendrycks, Gimpel 2016.
    """
    if approximate not in ("tanh", "none"):
        raise CodeError(f'oc.gelu: approximate={approximate!r} is neither "tanh" nor "none"')
    operand = cast("Tensor", x if isinstance(x, Term) else embed(x))  # terms have the operators of tensors
    return _tanh_gelu(operand) if approximate == "tanh" else cast("Tensor", exact_gelu_(operand))


REGISTRY.update(gelu=gelu)

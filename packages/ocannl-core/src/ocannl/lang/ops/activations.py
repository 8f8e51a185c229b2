"""Activation functions by formulas over primitives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ocannl.infer.logic import einsum
from ocannl.infer.spec import AxisSpec, Fixed, Label, Merged, ShapeSpec, Spec
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.term_functions import (
    absolute,
    exp,
    expm1,
    log1p,
    maximum,
    minimum,
    polynomial,
    sigmoid,
    where,
)
from ocannl.lang.ops.along_axis import single_axis
from ocannl.lang.ops.elementwise_decorator import formula
from ocannl.lang.ops.reduced_axes import identity

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # mean 0 and variance 1 are a fixed point


def _inside(x: Term, low: float, high: float) -> Term:
    return (x > low) & (x < high)


# --- exponential rectifiers ------------------------------------------------------------------------------------------


@formula(lambda g, v, x: SELU_SCALE * g * where(x > 0.0, 1.0, SELU_ALPHA * exp(x)))
def selu(x: Term) -> Term:
    """`scale * x` where the value is positive, else `scale * alpha * (exp(x) - 1)`, with fixed constants.

    Grad:   `scale * g` where the value is positive, else `scale * alpha * exp(x) * g`.
    Source: Klambauer, Unterthiner, Mayr, Hochreiter 2017.
    """
    return where(x > 0.0, SELU_SCALE * x, SELU_SCALE * SELU_ALPHA * expm1(x))


@formula(lambda g, v, x, alpha=1.0: where(x > 0.0, g, g * exp(x / alpha)), positive=("alpha",))
def celu(x: Term, *, alpha: float = 1.0) -> Term:
    """The value where it is positive, else `alpha * (exp(x / alpha) - 1)`.

    Grad:   `g` where the value is positive, else `exp(x / alpha) * g`.
    Raises: DataError unless `alpha` is positive.
    Source: Barron 2017.
    """
    return where(x > 0.0, x, alpha * expm1(x / alpha))


def _mish_slope(g: Term, v: Term, x: Term) -> Term:
    x = minimum(x, _MISH_LINEAR)
    e = exp(x)
    n = e * (e + 2.0)
    return g * (n / (n + 2.0) + x * (4.0 * e * (1.0 + e)) / ((n + 2.0) * (n + 2.0)))


_MISH_LINEAR = 20.0  # the factor of x rounds to 1 above


@formula(_mish_slope)
def mish(x: Term) -> Term:
    """`x * tanh(softplus(x))`, computed from a single exponential.

    Grad:   the derivative of this formula, times `g`.
    Source: Misra 2019.
    """
    e = exp(minimum(x, _MISH_LINEAR))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


@formula(lambda g, v, x: g * sigmoid(-x))
def log_sigmoid(x: Term) -> Term:
    """The logarithm of the sigmoid, computed without overflow.

    Grad:   `g * sigmoid(-x)`.
    """
    return minimum(x, 0.0) - log1p(exp(-absolute(x)))


# --- piecewise linear functions --------------------------------------------------------------------------------------


@formula(
    lambda g, v, x, slope: where(x > 0.0, g, g * slope),
    lambda g, v, x, slope: where(x > 0.0, 0.0, g * x),
)
def prelu(x: Term, slope: Term) -> Term:
    """The value where it is positive, else `slope` times the value; `slope` is usually a parameter of the last axis.

    Grad:   where the value is positive `g` to `x`, elsewhere `slope * g` to `x` and `x * g` to `slope`.
    Raises: ShapeError.
    Source: He, Zhang, Ren, Sun 2015.
    """
    return where(x > 0.0, x, slope * x)


@formula(lambda g, v, x: where(_inside(x, 0.0, 6.0), g, 0.0))
def relu6(x: Term) -> Term:
    """The value limited to [0, 6]; NaN is preserved.

    Grad:   `g` between the limits, else 0.
    """
    return minimum(maximum(x, 0.0), 6.0)


@formula(lambda g, v, x, low=-1.0, high=1.0: where(_inside(x, low, high), g, 0.0))
def hard_tanh(x: Term, *, low: float = -1.0, high: float = 1.0) -> Term:
    """The value limited to [low, high]; NaN is preserved.

    Grad:   `g` between the limits, else 0.
    """
    return minimum(maximum(x, low), high)


@formula(lambda g, v, x: where(_inside(x, -3.0, 3.0), g / 6.0, 0.0))
def hard_sigmoid(x: Term) -> Term:
    """`x / 6 + 1 / 2`, limited to [0, 1]; NaN is preserved.

    Grad:   `g / 6` between -3 and 3, else 0.
    Source: Howard et al. 2019.
    """
    return minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0


def _hard_swish_slope(g: Term, v: Term, x: Term) -> Term:
    return where(x <= -3.0, 0.0, where(x < 3.0, g * (x / 3.0 + 0.5), g))


@formula(_hard_swish_slope)
def hard_swish(x: Term) -> Term:
    """`x * hard_sigmoid(x)`.

    Grad:   `g * (x / 3 + 1 / 2)` between -3 and 3, 0 below and `g` above.
    Source: Howard et al. 2019.
    """
    return x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0


@formula(lambda g, v, x, width=0.5: where(absolute(x) <= width, 0.0, g))
def hardshrink(x: Term, *, width: float = 0.5) -> Term:
    """0 in [-width, width], elsewhere the value; NaN is preserved.

    Grad:   `g` where the value is kept, else 0.
    """
    return where(absolute(x) <= width, 0.0, x)


@formula(lambda g, v, x, width=0.5: where(absolute(x) <= width, 0.0, g))
def softshrink(x: Term, *, width: float = 0.5) -> Term:
    """0 in [-width, width], elsewhere the value moved by `width` towards 0; NaN is preserved.

    Grad:   `g` outside [-width, width], else 0.
    """
    return where(absolute(x) <= width, 0.0, x - where(x < 0.0, -width, width))


@formula(lambda g, v, x, threshold, value: where(x <= threshold, 0.0, g))
def threshold(x: Term, *, threshold: float, value: float) -> Term:
    """The argument where it is greater than `threshold`, else `value`; NaN is preserved.

    Grad:   `g` where the argument is kept, else 0.
    """
    return where(x <= threshold, value, x)


# --- quotients -------------------------------------------------------------------------------------------------------


def _softsign_slope(g: Term, v: Term, x: Term) -> Term:
    root = 1.0 + absolute(x)
    return g / root / root


@formula(_softsign_slope)
def softsign(x: Term) -> Term:
    """`x / (1 + abs(x))`.

    Grad:   `g / (1 + abs(x))**2`.
    """
    return x / (1.0 + absolute(x))


_SHRINK_NUMERATOR = (4583103525.0, 349188840.0, 6891885.0, 42900.0, 65.0)
_SHRINK_DENOMINATOR = (13749310575.0, 6547290750.0, 413513100.0, 7567560.0, 45045.0, 66.0)


def _tanh_squared(g: Term, v: Term, x: Term) -> Term:
    t = term("tanh", x)
    return g * (t * t)


@formula(_tanh_squared)
def tanhshrink(x: Term) -> Term:
    """`x - tanh(x)`, without cancellation where `x` is small: there it is a truncated continued fraction.

    Grad:   `g * tanh(x)**2`.
    Source: Lambert 1761.
    """
    small = minimum(maximum(x, -1.5), 1.5)
    square = small * small
    fraction = polynomial(square, _SHRINK_NUMERATOR) / polynomial(square, _SHRINK_DENOMINATOR)
    return where(absolute(x) < 1.5, x * (square * fraction), x - term("tanh", x))


@composite
def glu(x: object, spec: str | None = None, **names: Any) -> Tensor:
    """The gated linear unit: the first half of an axis, times the sigmoid of its second half. The axis is the one that
    the spec removes, or the only output axis.

        oc.glu(x, "...|t,c => ...|t")  # along c

    Shapes: those of `x`, with the axis half as long.
    Grad:   to the first half `g * s`, to the second `g * first * s * (1 - s)`, where `s` is the sigmoid of the second.
    Raises: CodeError unless the spec removes exactly one axis; ShapeError if its size is odd.
    Source: Dauphin, Fan, Auli, Grangier 2016.
    """
    axes, axis = single_axis(x, spec, names, "glu")
    operand, half = axes.logic.spec.operands[0], f"{axis}'"  # no user can write such a name
    merged = _replace_axis(operand, axis, Merged((Label(half), Label(axis))))
    split = Spec((merged,), _replace_axis(operand, axis, Label(half), Label(axis)))
    sizes = {**axes.sizes, half: 2}
    halves = apply(contraction("glu", einsum(split), identity, ADD, sizes=sizes), [axes.x], captures=axes.captures)
    first, second = (
        apply(contraction("glu", einsum(Spec((_replace_axis(operand, axis, Fixed(n), Label(axis)),), operand)),
                          identity, ADD), [halves])
        for n in range(2)
    )  # fmt: skip
    return first * REGISTRY["sigmoid"](second)  # type: ignore[no-any-return]


def _replace_axis(shape: ShapeSpec, name: str, *axes: AxisSpec) -> ShapeSpec:
    def replaced(row: tuple[AxisSpec, ...]) -> tuple[AxisSpec, ...]:
        return tuple(new for axis in row for new in (axes if axis == Label(name) else (axis,)))

    rows = (replace(row, lead=replaced(row.lead), trail=replaced(row.trail)) for _, row in shape.rows)
    return ShapeSpec(*rows)


REGISTRY.update(glu=glu)

"""Elementwise functions defined by formulas over primitives; every row broadcasts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.ir.ops import Domain
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term, apply
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import absolute, eq, exp, ne, trunc, where
from ocannl.lang.core.term_functions import expm1 as term_expm1
from ocannl.lang.core.term_functions import log1p as term_log1p
from ocannl.lang.core.term_functions import sigmoid as term_sigmoid
from ocannl.lang.ops.einsum import maximum, minimum
from ocannl.lang.ops.elementwise_decorator import formula
from ocannl.lang.ops.primitives import PRIMITIVES

# --- classification --------------------------------------------------------------------------------------------------


@formula(domain=Domain.ANY, differentiable=False)
def isnan(x: Term) -> Term:
    """1 where the value is not a number, else 0.

    Grad:   none.
    """
    return ne(x, x)


@formula(domain=Domain.ANY, differentiable=False)
def isfinite(x: Term) -> Term:
    """1 where the value is finite, else 0.

    Grad:   none.
    """
    return eq(x - x, 0)


@formula(domain=Domain.ANY, differentiable=False)
def isinf(x: Term) -> Term:
    """1 where the value is an infinity, else 0.

    Grad:   none.
    """
    return eq(x, x) & ne(x - x, 0)


@formula(domain=Domain.ANY, differentiable=False)
def sign(x: Term) -> Term:
    """1, 0 or -1 for a positive, zero or negative value; NaN is preserved.

    Grad:   none.
    """
    return where(x > 0, 1, where(x < 0, -1, x))


# --- rounding --------------------------------------------------------------------------------------------------------


def _identity_on_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces a rounding function by the identity on integers."""

    @wraps(function)
    def call(x: object, *, label: str | None = None) -> Any:
        is_integer = not isinstance(x, Term) and not embed(x).typing.is_float
        return (PRIMITIVES["id"] if is_integer else function)(x, label=label)

    REGISTRY[function.__name__] = call
    return call


@_identity_on_integers
@formula(differentiable=False)
def floor(x: Term) -> Term:
    """The largest integer that is not greater than the value.

    Grad:   none.
    """
    part = trunc(x)
    return part - (x < part)


@_identity_on_integers
@formula(differentiable=False)
def ceil(x: Term) -> Term:
    """The smallest integer that is not less than the value.

    Grad:   none.
    """
    part = trunc(x)
    return part + (x > part)


@_identity_on_integers
@formula(differentiable=False)
def round(x: Term) -> Term:
    """The nearest integer; ties round to even.

    Grad:   none.
    """
    part = trunc(x)
    fraction = absolute(x - part)
    is_odd = ne(part, 2.0 * trunc(0.5 * part))
    away_from_zero = (fraction > 0.5) | (eq(fraction, 0.5) & is_odd)
    return part + where(away_from_zero, where(x < 0.0, -1.0, 1.0), 0.0)


# --- exponentials ----------------------------------------------------------------------------------------------------


@formula(lambda g, v, x: g / (1.0 + x))
def log1p(x: Term) -> Term:
    """`log(1 + x)`, accurate where `x` is small.

    Grad:   `g / (1 + x)`.
    """
    return term_log1p(x)


@formula(lambda g, v, x: g * (v + 1.0))
def expm1(x: Term) -> Term:
    """`exp(x) - 1`, accurate where `x` is small.

    Grad:   `g * exp(x)`.
    """
    return term_expm1(x)


def _difference(x: Term, y: Term) -> Term:
    """`x - y`, and 0 for equal infinities."""
    return where(eq(x, y), 0.0, x - y)


@formula(lambda g, v, x, y: g * term_sigmoid(_difference(x, y)), lambda g, v, x, y: g * term_sigmoid(_difference(y, x)))
def logaddexp(x: Term, y: Term) -> Term:
    """`log(exp(x) + exp(y))`, computed without overflow.

    Grad:   to `x` `g * sigmoid(x - y)`; to `y` `g * sigmoid(y - x)`.
    Raises: ShapeError.
    """
    return apply("max", x, y) + term_log1p(exp(-absolute(_difference(x, y))))


@formula(lambda g, v, x: g * term_sigmoid(x))
def softplus(x: Term) -> Term:
    """`log(1 + exp(x))`, computed without overflow.

    Grad:   `g * sigmoid(x)`.
    Source: Dugas, Bengio, Bélisle, Nadeau, Garcia 2000.
    """
    return apply("relu", x) + term_log1p(exp(-absolute(x)))


@formula(lambda g, v, x: g * (v * (1.0 - v)))
def sigmoid(x: Term) -> Term:
    """`1 / (1 + exp(-x))`, exact at both infinities, without premature underflow for very negative `x`.

    Grad:   `g * v * (1 - v)`.
    """
    return term_sigmoid(x)


# --- rectifiers ------------------------------------------------------------------------------------------------------


@formula(lambda g, v, x: g * (term_sigmoid(x) + v * (1.0 - term_sigmoid(x))))
def silu(x: Term) -> Term:
    """`x * sigmoid(x)`.

    Grad:   `g * (sigmoid(x) + v * (1 - sigmoid(x)))`.
    Source: Elfwing, Uchibe, Doya 2018.
    """
    return x * term_sigmoid(x)


@formula()
def leaky_relu(x: Term, *, slope: float = 0.01) -> Term:
    """The value where it is positive, else `slope` times the value.

    Grad:   `g` where the value is positive, else `slope * g`.
    Source: Maas, Hannun, Ng 2013.
    """
    return where(x > 0.0, x, slope * x)


@formula(lambda g, v, x, alpha=1.0: where(x > 0.0, g, g * (v + alpha)))
def elu(x: Term, *, alpha: float = 1.0) -> Term:
    """The value where it is positive, else `alpha * (exp(x) - 1)`.

    Grad:   `g` where the value is positive, else `alpha * exp(x) * g`.
    Source: Clevert, Unterthiner, Hochreiter 2015.
    """
    return where(x > 0.0, x, alpha * term_expm1(x))


@formula(lambda g, v, x: where(eq(v, 0.0), 0.0, g / (2.0 * v)))
def root_(x: Term) -> Term:
    """The square root of a sum of squares, whose gradient at 0 is defined as 0."""
    return apply("sqrt", x)


@formula(lambda g, v, x: where(eq(x, 0.0), 0.0, g / x))
def log_of_sum_(x: Term) -> Term:
    """The logarithm of a sum of exponentials, whose gradient is 0 where all exponentials vanish."""
    return apply("log", x)


@composite
def clip(x: object, low: object = None, high: object = None) -> Tensor:
    """The value limited to the range from `low` to `high`; NaN is preserved.

    Shapes: `...|...->...; ...|...->...; ...|...->... => ...|...->...`, every row broadcasting.
    Grad:   `g` inside the range, 0 outside, `g / 2` at a limit; limits that are tensors receive the remaining part.
    Raises: CodeError without a limit; ShapeError.
    """
    if low is None and high is None:
        raise CodeError("oc.clip(x, low, high) takes at least one limit")
    clipped: Any = x if low is None else maximum(x, low)
    return clipped if high is None else minimum(clipped, high)  # type: ignore[no-any-return]


REGISTRY.update(clip=clip)

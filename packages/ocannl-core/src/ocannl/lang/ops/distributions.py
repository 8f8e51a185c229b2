"""Random numbers of continuous distributions, by inversion of the distribution function.

They are computed in float64 from a uniform number of 32 bits (52 for float64), and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocannl.base.errors import DataError
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import refuse_integers
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.normal_quantile import normal_distribution, normal_quantile
from ocannl.lang.ops.random_streams import RandomBits, draw, is_finite, sized_like

Quantile = Callable[[Term], Term]


def _inverted(
    name: str, quantile: Quantile, loc: float, scale: float, key: str | None, counter: object, sizes: dict[str, Any]
) -> Tensor:
    """Samples of `loc + scale * quantile(u)` for uniform numbers u in (0, 1)."""
    if not (is_finite(loc) and is_finite(scale) and scale >= 0):
        raise DataError(f"oc.{name} takes finite numbers and a scale that is not negative, not {loc!r} and {scale!r}")
    like, kind, label = sized_like(sizes)
    if kind is not None:
        refuse_integers(kind)

    def formula(random: RandomBits, _: Term) -> Term:
        return quantile(random.store("uniform", random.open_unit())) * float(scale) + float(loc)

    return draw(name, [like], formula, kind, key, counter, label, is_open=kind is None)


def _log(x: Term) -> Term:
    return term("log", x)


@composite
def exponential(scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Exponentially distributed random numbers of the mean `scale`: new numbers at each call, or those of `counter`.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a scale that is negative or not finite; DtypeError for an integer type.
    """
    return _inverted("exponential", lambda u: -_log(u), 0.0, scale, key, counter, sizes)


@composite
def laplace(
    loc: float = 0.0, scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the Laplace distribution, of the density `exp(-abs(x - loc) / scale) / (2 * scale)`: new
    numbers at each call, or those of `counter`.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a scale that is negative, or numbers that are not finite; DtypeError for an integer type.
    """

    def quantile(u: Term) -> Term:
        return term("where", u < 0.5, _log(2.0 * u), -_log(2.0 - 2.0 * u))

    return _inverted("laplace", quantile, loc, scale, key, counter, sizes)


@composite
def logistic(
    loc: float = 0.0, scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the logistic distribution, of the distribution function `sigmoid((x - loc) / scale)`: new
    numbers at each call, or those of `counter`.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a scale that is negative, or numbers that are not finite; DtypeError for an integer type.
    """
    return _inverted("logistic", lambda u: _log(u / (1.0 - u)), loc, scale, key, counter, sizes)


@composite
def gumbel(
    loc: float = 0.0, scale: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the Gumbel distribution, of the distribution function `exp(-exp((loc - x) / scale))`: new
    numbers at each call, or those of `counter`.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a scale that is negative, or numbers that are not finite; DtypeError for an integer type.
    """
    return _inverted("gumbel", gumbel_quantile, loc, scale, key, counter, sizes)


def gumbel_quantile(u: Term) -> Term:
    return -_log(-_log(u))


@composite
def truncated_normal(
    mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0, *, key: str | None = None,
    counter: object = None, **sizes: Any,
) -> Tensor:  # fmt: skip
    """Random numbers of a normal distribution, under the condition that they are between `low` and `high`: new numbers
    at each call, or those of `counter`. Either bound may be infinite.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a mean or standard deviation that is not finite, bounds of which the first is not the lower
            one, or bounds beyond all numbers that a normal distribution has in float64; DtypeError for an integer type.
    Source: Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution".
    """
    if not (is_finite(mean) and is_finite(std) and std > 0):
        raise DataError(f"oc.truncated_normal takes a mean and a positive standard deviation, not {mean!r} and {std!r}")
    if not (is_number(low) and is_number(high) and low < high):
        raise DataError(f"oc.truncated_normal takes two bounds, the lower first; not {low!r} and {high!r}")
    first, last = ((python_number(bound) - mean) / std for bound in (low, high))
    side = -1.0 if first > 0 else 1.0  # small probabilities are exact in the lower tail only
    lower, upper = sorted((side * first, side * last))
    begin, end = normal_distribution(lower), normal_distribution(upper)
    if not begin < end:
        raise DataError(f"oc.truncated_normal: no number of the normal distribution is between {low!r} and {high!r}")

    def quantile(u: Term) -> Term:
        number = normal_quantile(u * (end - begin) + begin, least=min(begin, 1.0 - end))
        return term("max", term("min", number, upper), lower) * side

    return _inverted("truncated_normal", quantile, mean, std, key, counter, sizes)


@composite
def rademacher(*, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """1 or -1, with equal probabilities: new values at each call, or those of `counter`.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    """
    like, kind, label = sized_like(sizes)

    def formula(random: RandomBits, _: Term) -> Term:
        return term("where", random.unit(1) < 0.5, -1, 1)

    return draw("rademacher", [like], formula, kind, key, counter, label, is_open=kind is None)


REGISTRY.update(
    exponential=exponential, gumbel=gumbel, laplace=laplace, logistic=logistic, rademacher=rademacher,
    truncated_normal=truncated_normal,
)  # fmt: skip

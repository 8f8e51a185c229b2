"""The distribution function of the standard normal distribution, and its inverse as a formula.

Source: Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution" (PPND16), with a relative
error of about 1e-16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.term_functions import polynomial

CENTER = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
     3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
"""Numerator and denominator, lowest order first, of probabilities from 0.075 to 0.925."""
MIDDLE = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


MIN_MIDDLE = math.exp(-24.9)
"""Probabilities of at least this have a square root of minus their logarithm below 5."""


def normal_distribution(x: float) -> float:
    """The probability of a number below `x`."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: Term, least: float) -> Term:
    """The number that is exceeded with probability `1 - p`, where `p` and `1 - p` are at least `least`."""
    from_center = p - 0.5
    smaller = term("min", p, 1.0 - p)
    root = term("sqrt", -term("log", smaller))
    tail = _quotient(MIDDLE, root - 1.6)
    if least < MIN_MIDDLE:
        tail = _select(root <= 5.0, tail, _quotient(TAIL, root - 5.0))
    is_central = term("abs", from_center) <= 0.425
    numerator, denominator = _select(is_central, _quotient(CENTER, 0.180625 - from_center * from_center), tail)
    sign = term("where", from_center < 0.0, -1.0, 1.0)
    return term("where", is_central, from_center, sign) * (numerator / denominator)


def _quotient(coefficients: tuple[Sequence[float], Sequence[float]], x: Term) -> tuple[Term, Term]:
    """The numerator and the denominator of a rational function."""
    numerator, denominator = (polynomial(x, c) for c in coefficients)
    return numerator, denominator


def _select(condition: Term, yes: tuple[Term, Term], no: tuple[Term, Term]) -> tuple[Term, Term]:
    """The numerator and the denominator of one of two quotients: a single division is computed."""
    numerator, denominator = (term("where", condition, *pair) for pair in zip(yes, no, strict=True))
    return numerator, denominator

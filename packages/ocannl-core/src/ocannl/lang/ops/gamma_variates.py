"""Random numbers of the gamma and beta distributions, by a bounded number of rejections."""

from __future__ import annotations

import math
from typing import Any

from ocannl.base.errors import CodeError, DataError
from ocannl.ir.precision import Precision, precision
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_number, python_number
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import refuse_integers
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.elementwise import sigmoid
from ocannl.lang.ops.random_streams import RandomBits, draw, sized_like

CANDIDATES = 5
"""The probability that all are rejected is less than 3e-7: each is accepted with a probability of at least 0.951."""
WORDS = 16
"""Uniform numbers of one variate: two for each pair of normal numbers, one for the acceptance of each candidate, and
one for concentrations below 1; the number is rounded up to a power of 2."""


def _log_gamma_variate(random: RandomBits, concentration: Term, begin: int, count: int, name: str) -> Term:
    """The logarithm of a gamma variate, from uniform numbers `begin` to `begin + WORDS - 1` of `count`.

    Source: Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
    """
    is_small = concentration < 1.0
    d = random.store(f"{name}.d", term("where", is_small, concentration + 1.0, concentration) - 1.0 / 3.0)
    c = random.store(f"{name}.c", 1.0 / (3.0 * term("sqrt", d)))
    uniform = [random.open_unit(begin + n, count) for n in range(2 * CANDIDATES + 2)]
    chosen: Term | float = 0.0
    candidates = []
    for number in range(CANDIDATES):
        first, second, *accepting = uniform[number // 2 * 4 :]
        if number % 2 == 0:
            radius = random.store(f"{name}.radius", term("sqrt", -2.0 * term("log", first)))
            angle = random.store(f"{name}.angle", (2.0 * math.pi) * second)
        x = random.store(f"{name}.normal", radius * term(("cos", "sin")[number % 2], angle))
        root = random.store(f"{name}.root", x * c + 1.0)
        log_v = random.store(f"{name}.log", 3.0 * term("log", term("max", root, 1e-300)))
        bound = 0.5 * x * x + d * (1.0 + log_v - root * root * root)
        candidates.append((term("and", root > 0.0, term("log", accepting[number % 2]) < bound), log_v))
    for is_accepted, log_v in reversed(candidates):
        chosen = term("where", is_accepted, log_v, chosen)
    left_over = uniform[-1]
    return term("log", d) + chosen + term("where", is_small, term("log", left_over) / concentration, 0.0)


def _parameters(
    name: str, values: dict[str, object], sizes: dict[str, Any]
) -> tuple[list[Tensor], Precision | None, str | None]:
    """Positive parameters, of which at least one is a tensor: `sizes` gives the shape if none is."""
    for title, value in values.items():
        if is_number(value) and not 0 < python_number(value) < math.inf:
            raise DataError(f"`{title}` of oc.{name} must be positive and finite, not {value!r}")
    tensors = [embed(value) for value in values.values() if not is_number(value)]
    if not tensors:
        like, kind, label = sized_like(sizes)
        return [like], kind, label
    surplus = sizes.keys() - {"dtype", "label"}
    if surplus:
        raise CodeError(f"oc.{name} has the shape of `{tensors[0].label}`; leave out {min(surplus)!r}")
    for t in tensors:
        refuse_integers(t.typing.current)
    kind = sizes.get("dtype")
    return tensors, None if kind is None else precision(kind), sizes.get("label")


def _terms(values: dict[str, object], cells: tuple[Term, ...]) -> list[Any]:
    """The parameters in a formula: numbers, and the cells of tensors."""
    remaining = iter(cells)
    return [python_number(v) if is_number(v) else next(remaining) for v in values.values()]


@composite
def gamma(
    concentration: object, scale: object = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random numbers of the gamma distribution, of the mean `concentration * scale`: new numbers at each call, or those
    of `counter`. Both parameters are positive numbers, or tensors of them.

    Five candidates are drawn for each number, and the first that is accepted is taken. If all of them are rejected, of
    which the probability is less than 3e-7, the number is near the mode.

    Shapes: those of the tensors among the parameters, broadcast; else from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a number that is not positive; CodeError for sizes beside a tensor; DtypeError for integers;
            ShapeError.
    Source: Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
    """
    values = {"concentration": concentration, "scale": scale}
    parameters, kind, label = _parameters("gamma", values, sizes)

    def formula(random: RandomBits, *cells: Term) -> Term:
        value, factor = _terms(values, cells)
        shape = random.store("concentration", value if isinstance(value, Term) else term("id", value))
        variate: Term = term("exp", _log_gamma_variate(random, shape, 0, WORDS, "gamma")) * factor
        return variate

    is_open = kind is None and all(map(is_number, values.values()))
    return draw("gamma", parameters, formula, kind, key, counter, label, is_open=is_open)


@composite
def beta(alpha: object, beta: object, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Random numbers of the beta distribution, of the density `x**(alpha - 1) * (1 - x)**(beta - 1)` up to a factor:
    new numbers at each call, or those of `counter`. Both parameters are positive numbers, or tensors of them.

    They are quotients `x / (x + y)` of two gamma variates, which are drawn as `oc.gamma` draws them.

    Shapes: those of the tensors among the parameters, broadcast; else from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a number that is not positive; CodeError for sizes beside a tensor; DtypeError for integers;
            ShapeError.
    """
    values = {"alpha": alpha, "beta": beta}
    parameters, kind, label = _parameters("beta", values, sizes)

    def formula(random: RandomBits, *cells: Term) -> Term:
        logs = []
        for number, value in enumerate(_terms(values, cells)):
            shape = random.store(f"concentration{number}", value if isinstance(value, Term) else term("id", value))
            logs.append(_log_gamma_variate(random, shape, number * WORDS, 2 * WORDS, f"gamma{number}"))
        quotient: Term = sigmoid(logs[0] - logs[1])
        return quotient

    is_open = kind is None and all(map(is_number, values.values()))
    return draw("beta", parameters, formula, kind, key, counter, label, is_open=is_open)


REGISTRY.update(beta=beta, gamma=gamma)

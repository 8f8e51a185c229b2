"""Random integers: counts, classes, and permutations."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.infer.logic import einsum as einsum_logic
from ocannl.infer.parse import parse
from ocannl.ir.host_call import DeferredArray
from ocannl.ir.ops import ADD
from ocannl.ir.precision import float64, int32, precision, uint32
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.host_calls import host_call
from ocannl.lang.core.leaf_constructors import embed, tensor
from ocannl.lang.core.literals import is_bool, is_number, python_number
from ocannl.lang.core.operation import Operation, ResultType, Slots, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import refuse_integers
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.along_axis import argmax
from ocannl.lang.ops.concat import concat
from ocannl.lang.ops.distributions import gumbel_quantile
from ocannl.lang.ops.einsum import einsum
from ocannl.lang.ops.index_tensors import check_count, indices, iota
from ocannl.lang.ops.ordering import argsort
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.random_streams import RandomBits, draw, sized_like
from ocannl.lang.ops.sampling import randint
from ocannl.lang.ops.scans import cumsum
from ocannl.lang.ops.shuffles import shuffled_range

MAX_RATE = 1e6
"""Of a Poisson distribution: the table of its probabilities has about 24 times the root of the rate entries."""
MAX_BOUND = 2**21
"""The table of a tensor of rates has as many entries for each rate."""
_COUNT_BELOW = einsum_logic(parse("...|...->...; k => ...|...->..."))
_COUNT_BELOW_CELL = einsum_logic(parse("...|...->...; ...|...->..., k => ...|...->..."))
_PROBABILITIES = einsum_logic(parse("...|...->...; k; k => ...|...->..., k"))


# --- counts ----------------------------------------------------------------------------------------------------------


@composite
def poisson(
    rate: object, *, bound: int | None = None, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Random integers of the Poisson distribution of the mean `rate`, of type int32: new numbers at each call, or those
    of `counter`.

    They are found by inversion of the distribution function, of whose values a table is computed on the host if the
    rate is a number, at most a million. For a tensor of rates, the table has a row for each of its cells, and `bound`
    entries: larger counts become `bound`.

    Shapes: those of `rate`, if it is a tensor; else from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a rate that is negative or too large, or a `bound` out of 1 to 2**21; CodeError for a
            tensor without a `bound`, or with sizes; DtypeError for a tensor of integers, or a float type.
    """
    kind = precision(sizes.pop("dtype", int32))
    if kind.is_float or kind.name == "bool":
        raise DtypeError(f"oc.poisson draws integers, not {kind}")
    if is_number(rate):
        if not 0 <= python_number(rate) <= MAX_RATE:
            raise DataError(f"oc.poisson takes a rate from 0 to 10**6, not {rate!r}")
        like, _, label = sized_like(sizes)
        first, table = _poisson_table(float(python_number(rate)))
        logic, cells, offset = _COUNT_BELOW, tensor(table, dtype=float64), first
    else:
        like, label, offset, logic = embed(rate), sizes.pop("label", None), 0, _COUNT_BELOW_CELL
        if sizes:
            raise CodeError(f"oc.poisson has the shape of `{like.label}`; leave out {min(sizes)!r}")
        refuse_integers(like.typing.current)
        cells = _poisson_distribution(like, bound)
    uniform = draw("poisson", [like], lambda random, _: random.open_unit(), float64, key, counter, None)

    def is_below(u: Term, probability: Term) -> Term:
        return term("where", probability < u, 1, 0)

    count = contraction("poisson", logic, is_below, ADD, differentiable=False, result_type=ResultType(kind))
    counted = apply(count, [uniform, cells], label=label)
    return counted + offset if offset else counted


def _poisson_table(rate: float) -> tuple[int, np.ndarray[Any, Any]]:
    """The first count, and the values of the distribution function of the counts from this on."""
    if rate == 0:
        return 0, np.zeros(0)
    spread = 12.0 * math.sqrt(rate)
    counts = np.arange(max(0, int(rate - spread - 10)), int(rate + spread + 30))
    logs = np.array([k * math.log(rate) - rate - math.lgamma(k + 1) for k in counts.tolist()])
    values = np.cumsum(np.exp(logs))
    always, never = values < 2.0**-53, values > 1.0 - 2.0**-53  # below and above all uniform numbers
    return int(counts[0]) + int(always.sum()), values[~always & ~never]


def _poisson_distribution(rate: Tensor, bound: int | None) -> Tensor:
    """The values of the distribution functions of the rates, along a new last output axis."""
    if bound is None:
        raise CodeError(f"oc.poisson: give `bound=`, the largest count; the rates in `{rate.label}` are not known here")
    if is_bool(bound) or not isinstance(bound, int | np.integer) or not 1 <= bound <= MAX_BOUND:
        raise DataError(f"`bound` of oc.poisson is the largest count, from 1 to 2**21, not {bound!r}"[:200])
    counts = np.arange(int(bound), dtype="float64")
    factorials = np.array([math.lgamma(k + 1) for k in range(int(bound))])

    def probability(r: Term, k: Term, log_factorial: Term) -> Term:
        power = term("where", term("eq", k, 0.0), 0.0, k * term("log", r))
        return term("exp", power - r - log_factorial)

    probabilities = contraction("probability", _PROBABILITIES, probability, None, differentiable=False,
                       result_type=ResultType(float64))  # fmt: skip
    return cumsum(apply(probabilities, [rate, tensor(counts), tensor(factorials)]), "...|...->..., k => ...|...->...")


@composite
def multinomial(n: int, p: object, *, key: str | None = None, counter: object = None) -> Tensor:
    """How often each class occurs among `n` draws with the probabilities `p`, as int32: new numbers at each call, or
    those of `counter`. Only the ratios of the probabilities matter.

    Shapes: `..b..|v => ..b..|v`.
    Grad:   none.
    Raises: DataError for an `n` that is no number of draws; DtypeError for probabilities that are integers; ShapeError.
    """
    check_count(n, "multinomial")
    probabilities = embed(p)
    refuse_integers(probabilities.typing.current)
    classes = categorical(PRIMITIVES["log"](probabilities), samples=n, key=key, counter=counter)

    def is_class(drawn: Term, v: Term) -> Term:
        return term("where", term("eq", drawn, v), 1, 0)

    spec = einsum_logic(parse("...|n; v; ...|v => ...|v"))
    count = contraction("multinomial", spec, lambda drawn, v, _: is_class(drawn, v), ADD, differentiable=False,
                        result_type=ResultType(int32))  # fmt: skip
    return apply(count, [classes, indices(), probabilities])


# --- classes ---------------------------------------------------------------------------------------------------------


@composite
def categorical(
    logits: object, *, samples: int | None = None, key: str | None = None, counter: object = None
) -> Tensor:
    """Random classes with the probabilities `softmax(logits)`, as int32: new ones at each call, or those of `counter`.
    With `samples`, this number of classes for each cell of the batch row, along an output axis.

    A Gumbel number is added to each logit, and the class of the largest sum is drawn. A class whose logit is minus
    infinity is never drawn, unless all are; probabilities below 2**-32 are not resolved.

    Shapes: `..b..|v => ..b..|`, with `samples=n` `..b..|v => ..b..|n`.
    Grad:   none.
    Raises: DataError for a number of samples that is none; DtypeError for logits that are integers; ShapeError, also
            for no classes.
    Source: Gumbel 1954; Maddison, Tarlow, Minka 2014, "A* sampling".
    """
    scores = embed(logits)
    refuse_integers(scores.typing.current)
    if samples is not None:
        check_count(samples, "categorical")
        scores = einsum("...|v => ...|n,v", scores, n=int(samples))

    return argmax(_perturbed(scores, key, counter), "...|v => ...|" if samples is None else "...|n,v => ...|n")


def _perturbed(scores: Tensor, key: str | None, counter: object) -> Tensor:
    """The scores, each with a Gumbel number added."""
    refuse_integers(scores.typing.current)

    def perturbed(random: RandomBits, score: Term) -> Term:
        return score + gumbel_quantile(random.store("uniform", random.open_unit()))

    return draw("categorical", [scores], perturbed, None, key, counter, None)


# --- permutations ----------------------------------------------------------------------------------------------------


@composite
def permutation(n: int, *, key: str | None = None, counter: object = None) -> Tensor:
    """The integers from 0 to n - 1 in random order, as int32: a new order at each call, or that of `counter`.
    `x.take(oc.permutation(n))` shuffles the rows of `x`.

    The order is that of a generator of NumPy, with four words of the stream as the seed. Each order has the same
    probability. Orders are equal on all backends, but may change with the version of NumPy.

    Shapes: `=> n`.
    Grad:   none.
    Raises: DataError unless `n` is a nonnegative integer.
    Source: Fisher, Yates 1938; Durstenfeld 1964, "Algorithm 235: Random permutation".
    """
    check_count(n, "permutation")
    seed = draw("permutation", [iota(4)], lambda random, _: random(0, 1), uint32, key, counter, None)

    def forward(s: Slots) -> None:
        s.result().write(None, True, host_call(partial(_shuffled, int(n)), s.operands[0], name="permutation"))

    logic = einsum_logic(parse("w => n"))
    operation = Operation("permutation", logic, forward, None, result_type=ResultType(int32), sizes={"n": int(n)})
    return apply(operation, [seed])


def _shuffled(n: int, seed: np.ndarray[Any, Any]) -> DeferredArray:
    return DeferredArray((n,), np.dtype(np.int32), partial(shuffled_range, n, seed))


@composite
def choice(
    x: object, samples: int, *, replace: bool = True, p: object = None, key: str | None = None, counter: object = None
) -> Tensor:
    """`samples` random rows along the leading output axis of `x`, or random integers from 0 to `x` - 1 for an integer:
    new ones at each call, or those of `counter`.

    Rows are drawn with equal probabilities, or in proportion to the vector `p`; without `replace`, no row is drawn
    twice.

    Shapes: `v, ..r.. => n, ..r..`, with batch and input rows kept.
    Grad:   `g`, added to the drawn rows.
    Raises: DataError for more samples than rows without `replace`; ShapeError.
    Source: Efraimidis, Spirakis 2006, "Weighted random sampling with a reservoir", for probabilities without `replace`.
    """
    check_count(samples, "choice")
    if is_number(x):
        check_count(x, "choice")
        rows, table = int(x), None  # type: ignore[call-overload]
    else:
        table = embed(x)
        axes = table.shape.output
        if not len(axes):
            raise DataError(f"oc.choice takes rows along an output axis, and `{table.label}` has none")
        rows = axes[0].size
    if not replace and samples > rows:
        raise DataError(f"oc.choice: {samples} rows cannot be drawn from {rows} without replacement")
    ids = _chosen_ids(rows, int(samples), replace, p, key, counter)
    return ids if table is None else table.take(ids)


def _chosen_ids(rows: int, samples: int, replace: bool, p: object, key: str | None, counter: object) -> Tensor:
    if replace and p is None:
        drawn: Tensor = randint(0, rows, key=key, counter=counter, output=[samples])
        return drawn
    if replace:
        return categorical(PRIMITIVES["log"](embed(p)), samples=samples, key=key, counter=counter)
    order = permutation(rows, key=key, counter=counter) if p is None else _random_order(embed(p), key, counter)
    return concat("a^b => a", order, a=samples)


def _random_order(p: Tensor, key: str | None, counter: object) -> Tensor:
    """The indices of the classes in the order in which they are drawn with the probabilities `p`, each of them once."""
    return argsort(_perturbed(PRIMITIVES["log"](p), key, counter), descending=True)


REGISTRY.update(
    categorical=categorical, choice=choice, multinomial=multinomial, permutation=permutation, poisson=poisson
)

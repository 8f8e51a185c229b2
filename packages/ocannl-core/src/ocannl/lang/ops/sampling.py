"""Random numbers of common distributions, and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.ir.precision import float64, int32, int64, uint64
from ocannl.lang.core import symbolic_terms
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.literals import is_bool, python_number
from ocannl.lang.core.mode_switch import by_mode
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import Distribution, RandomInitializer, refuse_integers, significand_bits
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import training_mode
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.random_streams import RandomBits, draw, is_finite, sized_like


@composite
def uniform(
    low: float = 0.0, high: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Uniform random numbers in [low, high): new numbers at each call, or those of `counter`.

    They have as many random bits as the significand of their type: 24 for float32, 53 for float64, 11 for float16, 8
    for bfloat16; numbers between 0 and 1 are not rounded.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for bounds that are not finite; DtypeError for an integer type.
    """
    if not (is_finite(low) and is_finite(high) and low <= high):
        raise DataError(f"oc.uniform takes finite bounds, the lower first; not {low!r} and {high!r}")
    like, kind, label = sized_like(sizes)
    if kind is not None:
        refuse_integers(kind)
    contents = RandomInitializer(Distribution(low, high), key) if counter is None else None

    def formula(random: RandomBits, _: Term) -> Term:
        return random.unit(significand_bits(random.kind)) * float(high - low) + float(low)

    return draw("uniform", [like], formula, kind, key, counter, label, contents, is_open=kind is None)


@composite
def normal(
    mean: float = 0.0, std: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Normally distributed random numbers: new numbers at each call, or those of `counter`.

    They are computed in float64 from two uniform numbers of 24 bits (53 for float64) and rounded once. Backends, whose
    logarithms and cosines differ in the last bit, therefore differ in about one of 10**8 numbers. The largest magnitude
    is 5.8 standard deviations (8.6 for float64).

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a mean or standard deviation that is not finite; DtypeError for an integer type.
    Source: Box, Muller 1958.
    """
    if not (is_finite(mean) and is_finite(std) and std >= 0):
        raise DataError(f"oc.normal takes a finite mean and a standard deviation; not {mean!r} and {std!r}")
    like, kind, label = sized_like(sizes)
    if kind is not None:
        refuse_integers(kind)
    contents = RandomInitializer(Distribution(mean, mean + std, normal=True), key) if counter is None else None

    def formula(random: RandomBits, _: Term) -> Term:
        bits = max(significand_bits(random.kind), 24)
        first, second = (symbolic_terms.convert(random.unit(bits, n, 2), float64) for n in range(2))
        radius = symbolic_terms.apply("sqrt", -2.0 * symbolic_terms.apply("log", 1.0 - first))
        standard = radius * symbolic_terms.apply("cos", (2.0 * math.pi) * second)
        return standard * float((mean + std) - mean) + float(mean)

    return draw("normal", [like], formula, kind, key, counter, label, contents, is_open=kind is None)


@composite
def bernoulli(p: object, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """1 with probability `p`, a number or a tensor, else 0: new values at each call, or those of `counter`.

    Probabilities are multiples of 2**-24; the results for 0 and 1 are exact.

    Shapes: those of `p`, if it is a tensor; else from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a number outside [0, 1].
    """
    if isinstance(p, Tensor) and sizes.keys() - {"dtype", "label"}:
        raise CodeError(
            f"oc.bernoulli has the shape of `{p.label}`; leave out {min(sizes.keys() - {'dtype', 'label'})!r}"
        )
    if not isinstance(p, Tensor) and not (is_finite(p) and 0 <= python_number(p) <= 1):
        raise DataError(f"oc.bernoulli takes a probability from 0 to 1, not {p!r}")
    like, kind, label = sized_like(sizes)

    def formula(random: RandomBits, cell: Term) -> Term:
        return symbolic_terms.apply("lt", random.unit(24), cell if isinstance(p, Tensor) else python_number(p))

    shape = p if isinstance(p, Tensor) else like
    return draw("bernoulli", [shape], formula, kind, key, counter, label, is_open=kind is None)


@composite
def randint(low: int, high: int, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Random integers `low <= n < high`, of type int32 or `dtype`: new numbers at each call, or those of `counter`.

    A 32-bit word is scaled to the range by multiplication, so the probabilities have a relative error below
    (high - low) / 2**32.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for limits that are not integers, or do not fit the type; DtypeError for a float type.
    Source: Lemire 2019, "Fast random integer generation in an interval".
    """
    if not all(isinstance(n, int | np.integer) and not is_bool(n) for n in (low, high)) or not low < high:
        raise DataError(f"oc.randint takes two integers, the lower first; not {low!r} and {high!r}")
    like, kind, label = sized_like({"dtype": int32, **sizes})
    assert kind is not None
    if kind.is_float or kind.name == "bool":
        raise DtypeError(f"oc.randint draws integers, not {kind}; use oc.bernoulli(0.5) for truth values")
    limits = np.iinfo(kind.numpy)
    if low < limits.min or high - 1 > limits.max or high - low > 2**32:
        raise DataError(f"the range from {low} to {high} does not fit {kind}, or is larger than 2**32")
    wide = int64 if low < 0 or high <= 2**63 else uint64

    def formula(random: RandomBits, _: Term) -> Term:
        scaled = symbolic_terms.apply("right_shift", symbolic_terms.convert(random(0, 1), uint64) * int(high - low), 32)
        return symbolic_terms.convert(scaled, wide) + int(low)

    return draw("randint", [like], formula, kind, key, counter, label)


@composite
def dropout(x: object, rate: float = 0.5, *, key: str | None = None, counter: object = None) -> Tensor:
    """In training, sets each cell of `x` to zero with probability `rate`, and divides the others by `1 - rate`.

    In inference, and so in all code but that of `train`, the result is `x`; `with oc.training(True):` decides
    otherwise. The mask is new at each call, or that of `counter`; the backward pass uses the mask of the forward pass.

    Shapes: those of `x`.
    Grad:   `g / (1 - rate)` for the remaining cells, 0 elsewhere.
    Raises: DataError for a rate outside [0, 1); DtypeError for integers.
    Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014.
    """
    if not (is_finite(rate) and 0 <= rate < 1):
        raise DataError(f"oc.dropout takes a rate in [0, 1), not {rate!r}")
    operand, keep_probability = embed(x), 1.0 - rate
    refuse_integers(operand.typing.current)

    def formula(random: RandomBits, _: Term) -> Term:
        return symbolic_terms.apply("lt", random.unit(24), keep_probability)

    mode = training_mode.get()
    if mode is False:
        return PRIMITIVES["id"](operand)  # type: ignore[no-any-return]
    mask = draw("dropout", [operand], formula, None, key, counter, None)
    result: Tensor = PRIMITIVES["where"](mask, operand * (1.0 / keep_probability), 0.0)
    return result if mode else by_mode(result, operand)


REGISTRY.update(uniform=uniform, normal=normal, bernoulli=bernoulli, randint=randint, dropout=dropout)

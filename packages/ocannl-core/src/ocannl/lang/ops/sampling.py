"""Random numbers computed in code, where they are used: the same bits on every backend.

Number n of a tensor, counted in memory order, is made of the words of its stream that follow one another at n: one word
for up to 32 bits, two for 53 bits or a pair of numbers, four for a pair of 53 bits. Which numbers a call draws follows
from the key of the stream (`lang.random`) and a counter, so forward and backward code see the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.infer.logic import EQUAL, Logic
from ocannl.infer.parse import parse
from ocannl.infer.shape import Shape
from ocannl.infer.spec import ShapeSpec, Spec
from ocannl.ir.ops import ADD
from ocannl.ir.precision import Precision, float32, float64, int32, int64, precision, uint32, uint64
from ocannl.ir.tnode import Role, TNode
from ocannl.lang import blocks
from ocannl.lang.core import dtypes, terms
from ocannl.lang.core.application import Application
from ocannl.lang.core.context_vars import composite, site
from ocannl.lang.core.leaves import embed, leaf
from ocannl.lang.core.literals import HostArray, exact, is_number, is_truth
from ocannl.lang.core.operation import Operation, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import Distribution, Draw, Sampling, Stream, digits, refuse_integers
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term
from ocannl.lang.ops.initializers import full
from ocannl.lang.ops.primitives import PRIMITIVES

_NO_AXES: dict[str, Any] = {"batch": [], "input": [], "output": []}
_DRAWN = Logic("draw", parse("...|...->...; 0; 1; 2; 3; 4; => ...|...->..."), (EQUAL,) * 7, asks=False)
_COUNTED = Operation(
    "calls", Logic("count", Spec((), ShapeSpec()), ()), lambda s: s.result().write(ADD, False, 1), None, kind=uint32
)


class Words:
    """The words of the stream for one number, which is stored as `kind`: four words of the key, the ordinal, the
    counter."""

    __slots__ = ("kind", "operands", "place")

    def __init__(self, s: Slots) -> None:
        self.kind = s.result().hole.node.precision
        self.place = s.offset(0)
        self.operands = s.operands[1:]

    def __call__(self, which: int, of: int) -> Term:
        """Word `which` of the `of` words that a number has: 1, 2 or 4."""
        *key, ordinal, call = self.operands
        per_block = 2 - (of.bit_length() - 1)
        low, high = (terms.apply("right_shift", self.place, n + per_block) for n in (0, 32))
        first = terms.apply("bitwise_and", self.place, (1 << per_block) - 1) * of
        return terms.apply("threefry4x32_20", *key, low, high, ordinal, call, first + which)

    def unit(self, bits: int, which: int = 0, of: int = 1) -> Term:
        """A number in [0, 1) of so many bits, the `which`-th of `of`: exact, and less than 1."""
        if bits <= 32:
            return terms.convert(terms.apply("right_shift", self(which, of), 32 - bits), float32) * 2.0**-bits
        high, low = self(2 * which, 2 * of), self(2 * which + 1, 2 * of)
        top = terms.convert(high, float64) * 2.0 ** (bits - 32)
        return (top + terms.convert(terms.apply("right_shift", low, 64 - bits), float64)) * 2.0**-bits


def calls() -> Tensor:
    """The number of the call, from 0: how often code that draws has run in a context before."""
    start = HostArray(np.array(2**32 - 1, np.uint32))
    node = TNode("calls", Role.STATE, lambda: (), lambda: uint32, contents=start, where=site().where)

    def emit(t: Tensor) -> Shape:
        return Shape.leaf(t.provenance, role=Role.STATE.value, **_NO_AXES)

    typing = dtypes.leaf(uint32).given_to(node)
    return Tensor(node, emit, typing, application=Application(_COUNTED, (), {}))


def _draw(
    name: str,
    like: Tensor,
    formula: Callable[[Words, Term], Term],
    kind: Precision | None,
    key: str | None,
    counter: object,
    label: str | None,
    contents: Draw | None = None,
    *,
    is_open: bool = False,
) -> Tensor:
    """Numbers of the shape of `like`, each a formula of its words and of the cell of `like`; without a `kind` they have
    the type of `like`, or, if that is open, the one that their users demand."""
    if key is not None and not isinstance(key, str):
        raise CodeError(f"`key` of oc.{name} is a text that names the stream, not {key!r}")
    given = Stream(key, blocks.stream())
    words = leaf("key", Role.DATA, uint32, {**_NO_AXES, "output": [5]}, where=site().where, contents=given)
    which = calls() if counter is None else _counter(name, counter)

    def forward(s: Slots) -> None:
        s.result().write(None, True, formula(Words(s), s.operands[0]))

    operation = Sampling(
        name, _DRAWN, forward, None, kind=kind, demanded=is_open, text=f"{name}()", contents=contents
    )
    return apply(operation, [like, *[words] * 5, which], label=label)


def _counter(name: str, given: object) -> Tensor:
    if is_number(given) and isinstance(given, int | np.integer):
        if not 0 <= given < 2**32:
            raise DataError(f"`counter` of oc.{name} has 32 bits; {given!r} does not fit")
        return leaf("counter", Role.DATA, uint32, _NO_AXES, contents=HostArray(np.array(given, np.uint32)))
    if not isinstance(given, Tensor | Symbol):
        raise CodeError(f"`counter` of oc.{name} is an integer, a symbol or a tensor of no axes, not {given!r}")
    counter = embed(given)
    if counter.typing.is_float:
        raise DtypeError(f"`counter` of oc.{name} is an integer, and `{counter.label}` is of {counter.typing.known}")
    return counter


def _like(sizes: dict[str, Any]) -> tuple[Tensor, Precision | None, str | None]:
    """A tensor of the shape that is asked for, the type if it is said, and the label."""
    kind = sizes.pop("dtype", None)
    label = sizes.pop("label", None)
    return full(0, **sizes), None if kind is None else precision(kind), label


@composite
def uniform(
    low: float = 0.0, high: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Uniform random numbers in [low, high): fresh ones at each call, or those of `counter`.

    They have as many bits as the type tells apart: 24 as float32, 53 as float64, 11 as float16, 8 as bfloat16; between
    0 and 1 none of them is rounded.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for bounds that are not finite; DtypeError for a type of integers.
    """
    if not (_finite(low) and _finite(high) and low <= high):
        raise DataError(f"oc.uniform takes finite bounds, the lower first; not {low!r} and {high!r}")
    like, kind, label = _like(sizes)
    if kind is not None:
        refuse_integers(kind)
    contents = Draw(Distribution(low, high), key) if counter is None else None

    def formula(words: Words, _: Term) -> Term:
        return words.unit(digits(words.kind)) * float(high - low) + float(low)

    return _draw("uniform", like, formula, kind, key, counter, label, contents, is_open=kind is None)


@composite
def normal(
    mean: float = 0.0, std: float = 1.0, *, key: str | None = None, counter: object = None, **sizes: Any
) -> Tensor:
    """Normally distributed random numbers: fresh ones at each call, or those of `counter`.

    Computed in float64 from two uniform numbers of 24 bits (53 for float64) and rounded once, so that backends, whose
    logarithms and cosines differ in the last place, agree but for one number in some hundred million. The largest
    magnitude is 5.8 standard deviations (8.6 for float64).

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a mean or a standard deviation that is not finite; DtypeError for a type of integers.
    Source: Box and Muller, 1958.
    """
    if not (_finite(mean) and _finite(std) and std >= 0):
        raise DataError(f"oc.normal takes a finite mean and a standard deviation; not {mean!r} and {std!r}")
    like, kind, label = _like(sizes)
    if kind is not None:
        refuse_integers(kind)
    contents = Draw(Distribution(mean, mean + std, normal=True), key) if counter is None else None

    def formula(words: Words, _: Term) -> Term:
        first, second = (terms.convert(words.unit(max(digits(words.kind), 24), n, 2), float64) for n in range(2))
        radius = terms.apply("sqrt", -2.0 * terms.apply("log", 1.0 - first))
        turned = radius * terms.apply("cos", (2.0 * math.pi) * second)
        return turned * float((mean + std) - mean) + float(mean)

    return _draw("normal", like, formula, kind, key, counter, label, contents, is_open=kind is None)


@composite
def bernoulli(p: object, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """1 with probability `p`, a number or a tensor, else 0: fresh ones at each call, or those of `counter`.

    A probability counts in steps of 2**-24; 0 gives none, 1 gives ones only.

    Shapes: those of `p`, if it is a tensor; else from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for a number that is no probability.
    """
    if isinstance(p, Tensor) and sizes.keys() - {"dtype", "label"}:
        raise CodeError(
            f"oc.bernoulli has the shape of `{p.label}`; leave out {min(sizes.keys() - {'dtype', 'label'})!r}"
        )
    if not isinstance(p, Tensor) and not (_finite(p) and 0 <= exact(p) <= 1):
        raise DataError(f"oc.bernoulli takes a probability from 0 to 1, not {p!r}")
    like, kind, label = _like(sizes)

    def formula(words: Words, cell: Term) -> Term:
        return terms.apply("lt", words.unit(24), cell if isinstance(p, Tensor) else exact(p))

    shape = p if isinstance(p, Tensor) else like
    return _draw("bernoulli", shape, formula, kind, key, counter, label, is_open=kind is None)


@composite
def randint(low: int, high: int, *, key: str | None = None, counter: object = None, **sizes: Any) -> Tensor:
    """Random integers, `low <= n < high`, as int32 unless `dtype` says otherwise: fresh ones at each call, or those of
    `counter`.

    By multiplication: one of 2**32 words is scaled to the range, so that probabilities differ from each other by less
    than (high - low) / 2**32 of themselves.

    Shapes: from the arguments (`output=[3]`), or from use.
    Grad:   none.
    Raises: DataError for limits that are not integers, or do not fit the type; DtypeError for a type of floats.
    Source: Lemire, "Fast random integer generation in an interval", 2019.
    """
    if not all(isinstance(n, int | np.integer) and not is_truth(n) for n in (low, high)) or not low < high:
        raise DataError(f"oc.randint takes two integers, the lower first; not {low!r} and {high!r}")
    like, kind, label = _like({"dtype": int32, **sizes})
    assert kind is not None
    if kind.is_float or kind.name == "bool":
        raise DtypeError(f"oc.randint draws integers, not {kind}; for truth values there is oc.bernoulli(0.5)")
    limits = np.iinfo(kind.numpy)
    if low < limits.min or high - 1 > limits.max or high - low > 2**32:
        raise DataError(f"the range from {low} to {high} does not fit {kind}, or is larger than 2**32")
    wide = int64 if low < 0 or high <= 2**63 else uint64

    def formula(words: Words, _: Term) -> Term:
        scaled = terms.apply("right_shift", terms.convert(words(0, 1), uint64) * int(high - low), 32)
        return terms.convert(scaled, wide) + int(low)

    return _draw("randint", like, formula, kind, key, counter, label)


@composite
def dropout(x: object, rate: float = 0.5, *, key: str | None = None, counter: object = None) -> Tensor:
    """`x` with each cell zero with probability `rate`, and the others divided by 1 - rate: another choice at each call,
    or that of `counter`; the backward pass sees the choice of the forward pass.

    Shapes: those of `x`.
    Grad:   to the cells that are left, `g / (1 - rate)`.
    Raises: DataError for a rate that is none; DtypeError for integers.
    Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014.
    """
    if not (_finite(rate) and 0 <= rate < 1):
        raise DataError(f"oc.dropout takes a rate from 0 up to, but not, 1; not {rate!r}")
    given, left = embed(x), 1.0 - rate
    refuse_integers(given.typing.known)

    def formula(words: Words, _: Term) -> Term:
        return terms.apply("lt", words.unit(24), left)

    kept = _draw("dropout", given, formula, None, key, counter, None)
    chosen: Tensor = PRIMITIVES["where"](kept, given * (1.0 / left), 0.0)
    return chosen


def _finite(value: object) -> bool:
    return is_number(value) and math.isfinite(exact(value))


REGISTRY.update(uniform=uniform, normal=normal, bernoulli=bernoulli, randint=randint, dropout=dropout)

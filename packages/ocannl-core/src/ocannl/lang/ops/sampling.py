"""Random sampling by generated code, with identical bits on all backends.

Element n of a tensor, in memory order, consumes consecutive words of its stream: one word for up to 32 bits, two for 53
bits or a pair of numbers, four for a pair of 53 bits. The numbers depend only on the key of the stream
(`lang.core.random`) and a counter (counter-based generation, Salmon et al. 2011), so forward and backward code draw
equal numbers.
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
from ocannl.lang.core import dtype_inference, symbolic_terms
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.context_vars import composite, site
from ocannl.lang.core.leaf import LeafName, leaf
from ocannl.lang.core.leaf_constructors import NO_AXES, embed
from ocannl.lang.core.literals import HostArray, is_bool, is_number, python_number
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import Distribution, RandomInitializer, Sampling, Stream, refuse_integers, significand_bits
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.initializers import full
from ocannl.lang.ops.primitives import PRIMITIVES

_DRAW_LOGIC = Logic("draw", parse("...|...->...; 0; 1; 2; 3; 4; => ...|...->..."), (EQUAL,) * 7, needs_axes=False)
_COUNT_CALLS = Operation(
    "calls",
    Logic("count", Spec((), ShapeSpec()), ()),
    lambda s: s.result().write(ADD, False, 1),
    None,
    result_type=ResultType(uint32),
)


class RandomBits:
    """The random words of one element, which is stored as `kind`.

    Its operands are four key words, the ordinal of the stream and the counter.
    """

    __slots__ = ("index", "kind", "operands")

    def __init__(self, s: Slots) -> None:
        self.kind = s.result().hole.node.precision
        self.index = s.offset(0)
        self.operands = s.operands[1:]

    def __call__(self, number: int, count: int) -> Term:
        """Word `number` of the `count` words of this element; `count` is 1, 2 or 4."""
        *key, ordinal, call = self.operands
        log2_per_block = 2 - (count.bit_length() - 1)
        low, high = (symbolic_terms.apply("right_shift", self.index, n + log2_per_block) for n in (0, 32))
        first = symbolic_terms.apply("bitwise_and", self.index, (1 << log2_per_block) - 1) * count
        return symbolic_terms.apply("threefry4x32_20", *key, low, high, ordinal, call, first + number)

    def unit(self, bits: int, number: int = 0, count: int = 1) -> Term:
        """Uniform number `number` of `count` numbers in [0, 1), a multiple of `2**-bits`."""
        if bits <= 32:
            word = symbolic_terms.apply("right_shift", self(number, count), 32 - bits)
            return symbolic_terms.convert(word, float32) * 2.0**-bits
        high, low = self(2 * number, 2 * count), self(2 * number + 1, 2 * count)
        top = symbolic_terms.convert(high, float64) * 2.0 ** (bits - 32)
        return (top + symbolic_terms.convert(symbolic_terms.apply("right_shift", low, 64 - bits), float64)) * 2.0**-bits


def calls() -> Tensor:
    """The number of previous runs of sampling code in a context."""
    start = HostArray(np.array(2**32 - 1, np.uint32))
    node = TNode("calls", Role.STATE, lambda: (), lambda: uint32, contents=start, where=site().where)

    def emit(t: Tensor) -> Shape:
        return Shape.leaf(t.provenance, role=Role.STATE.value, batch=[], input=[], output=[])

    typing = dtype_inference.leaf_dtype(uint32).bind(node)
    return Tensor(node, emit, typing, application=Application(_COUNT_CALLS, (), {}))


def _draw(
    name: str,
    like: Tensor,
    formula: Callable[[RandomBits, Term], Term],
    kind: Precision | None,
    key: str | None,
    counter: object,
    label: str | None,
    contents: RandomInitializer | None = None,
    *,
    is_open: bool = False,
) -> Tensor:
    """Samples of the shape of `like`, by a formula of the random words and the cell of `like`.

    Without a `kind` they have the type of `like`, or, with `is_open`, the type that their users require.
    """
    if key is not None and not isinstance(key, str):
        raise CodeError(f"`key` of oc.{name} is a text that names the stream, not {key!r}")
    stream = Stream(key, blocks.next_stream())
    key_name = LeafName("key", site().where)
    stream_key = leaf(key_name, Role.DATA, uint32, {**NO_AXES, "output": [5]}, contents=stream)
    call = calls() if counter is None else _counter(name, counter)

    def forward(s: Slots) -> None:
        s.result().write(None, True, formula(RandomBits(s), s.operands[0]))

    result_type = ResultType(kind, follows_consumers=is_open)
    operation = Sampling(
        name, _DRAW_LOGIC, forward, None, result_type=result_type, text=f"{name}()", contents=contents
    )
    return apply(operation, [like, *[stream_key] * 5, call], label=label)


def _counter(name: str, value: object) -> Tensor:
    if is_number(value) and isinstance(value, int | np.integer):
        if not 0 <= value < 2**32:
            raise DataError(f"`counter` of oc.{name} has 32 bits; {value!r} does not fit")
        return leaf(LeafName("counter"), Role.DATA, uint32, NO_AXES, contents=HostArray(np.array(value, np.uint32)))
    if not isinstance(value, Tensor | Symbol):
        raise CodeError(f"`counter` of oc.{name} is an integer, a symbol or a tensor of no axes, not {value!r}")
    counter = embed(value)
    if counter.typing.is_float:
        raise DtypeError(f"`counter` of oc.{name} is an integer, and `{counter.label}` is of {counter.typing.current}")
    return counter


def _like(sizes: dict[str, Any]) -> tuple[Tensor, Precision | None, str | None]:
    """A tensor of the requested shape, the requested type, and the label."""
    kind = sizes.pop("dtype", None)
    label = sizes.pop("label", None)
    return full(0, **sizes), None if kind is None else precision(kind), label


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
    if not (_finite(low) and _finite(high) and low <= high):
        raise DataError(f"oc.uniform takes finite bounds, the lower first; not {low!r} and {high!r}")
    like, kind, label = _like(sizes)
    if kind is not None:
        refuse_integers(kind)
    contents = RandomInitializer(Distribution(low, high), key) if counter is None else None

    def formula(random: RandomBits, _: Term) -> Term:
        return random.unit(significand_bits(random.kind)) * float(high - low) + float(low)

    return _draw("uniform", like, formula, kind, key, counter, label, contents, is_open=kind is None)


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
    if not (_finite(mean) and _finite(std) and std >= 0):
        raise DataError(f"oc.normal takes a finite mean and a standard deviation; not {mean!r} and {std!r}")
    like, kind, label = _like(sizes)
    if kind is not None:
        refuse_integers(kind)
    contents = RandomInitializer(Distribution(mean, mean + std, normal=True), key) if counter is None else None

    def formula(random: RandomBits, _: Term) -> Term:
        bits = max(significand_bits(random.kind), 24)
        first, second = (symbolic_terms.convert(random.unit(bits, n, 2), float64) for n in range(2))
        radius = symbolic_terms.apply("sqrt", -2.0 * symbolic_terms.apply("log", 1.0 - first))
        standard = radius * symbolic_terms.apply("cos", (2.0 * math.pi) * second)
        return standard * float((mean + std) - mean) + float(mean)

    return _draw("normal", like, formula, kind, key, counter, label, contents, is_open=kind is None)


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
    if not isinstance(p, Tensor) and not (_finite(p) and 0 <= python_number(p) <= 1):
        raise DataError(f"oc.bernoulli takes a probability from 0 to 1, not {p!r}")
    like, kind, label = _like(sizes)

    def formula(random: RandomBits, cell: Term) -> Term:
        return symbolic_terms.apply("lt", random.unit(24), cell if isinstance(p, Tensor) else python_number(p))

    shape = p if isinstance(p, Tensor) else like
    return _draw("bernoulli", shape, formula, kind, key, counter, label, is_open=kind is None)


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
    like, kind, label = _like({"dtype": int32, **sizes})
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

    return _draw("randint", like, formula, kind, key, counter, label)


@composite
def dropout(x: object, rate: float = 0.5, *, key: str | None = None, counter: object = None) -> Tensor:
    """Sets each cell of `x` to zero with probability `rate`, and divides the remaining cells by `1 - rate`.

    The mask is new at each call, or that of `counter`; the backward pass uses the mask of the forward pass.

    Shapes: those of `x`.
    Grad:   `g / (1 - rate)` for the remaining cells, 0 elsewhere.
    Raises: DataError for a rate outside [0, 1); DtypeError for integers.
    Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014.
    """
    if not (_finite(rate) and 0 <= rate < 1):
        raise DataError(f"oc.dropout takes a rate in [0, 1), not {rate!r}")
    operand, keep_probability = embed(x), 1.0 - rate
    refuse_integers(operand.typing.current)

    def formula(random: RandomBits, _: Term) -> Term:
        return symbolic_terms.apply("lt", random.unit(24), keep_probability)

    mask = _draw("dropout", operand, formula, None, key, counter, None)
    result: Tensor = PRIMITIVES["where"](mask, operand * (1.0 / keep_probability), 0.0)
    return result


def _finite(value: object) -> bool:
    return is_number(value) and math.isfinite(python_number(value))


REGISTRY.update(uniform=uniform, normal=normal, bernoulli=bernoulli, randint=randint, dropout=dropout)

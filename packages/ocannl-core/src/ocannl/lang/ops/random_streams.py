"""Random words of the elements of a tensor, drawn by generated code with identical bits on all backends.

Element n of a tensor, in memory order, consumes consecutive words of its stream: one word for up to 32 bits, two for 53
bits or a pair of numbers, and a power of 2 in general. The numbers depend only on the key of the stream
(`lang.core.random`) and a counter (counter-based generation, Salmon et al. 2011), so forward and backward code draw
equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, DataError, DtypeError
from ocannl.infer.logic import EQUAL, STRETCHED, Logic
from ocannl.infer.parse import parse
from ocannl.infer.shape import Shape
from ocannl.infer.spec import ShapeSpec, Spec
from ocannl.ir.ops import ADD
from ocannl.ir.precision import Precision, float32, float64, precision, uint32
from ocannl.ir.tnode import Role, TNode
from ocannl.lang import block_application
from ocannl.lang.core import dtype_inference, symbolic_terms
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.context_vars import loop_positions, site
from ocannl.lang.core.leaf import LeafName, leaf
from ocannl.lang.core.leaf_constructors import NO_AXES, embed
from ocannl.lang.core.literals import HostArray, is_number, python_number
from ocannl.lang.core.operation import Operation, ResultType, Slots
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.random import CallCounter, RandomInitializer, Sampling, Stream, significand_bits
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.initializers import full

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

    __slots__ = ("_slots", "index", "kind", "operands")

    def __init__(self, s: Slots, parameters: int) -> None:
        self._slots = s
        self.kind = s.result().hole.node.precision
        self.index = s.offset(0)
        self.operands = s.operands[parameters:]

    def __call__(self, number: int, count: int) -> Term:
        """Word `number` of the `count` words of this element; `count` is a power of 2."""
        *key, ordinal, call = self.operands
        log2_per_block = 2 - (count.bit_length() - 1)
        if log2_per_block >= 0:
            low, high = (symbolic_terms.apply("right_shift", self.index, n + log2_per_block) for n in (0, 32))
            first = symbolic_terms.apply("bitwise_and", self.index, (1 << log2_per_block) - 1) * count
            lane: Term | int = first + number if log2_per_block else number
        else:  # several blocks
            low = symbolic_terms.apply("left_shift", self.index, -log2_per_block) + (number >> 2)
            high = symbolic_terms.apply("right_shift", self.index, 32 + log2_per_block)
            lane = number & 3
        return symbolic_terms.apply("threefry4x32_20", *key, low, high, ordinal, call, lane)

    def store(self, name: str, value: Term) -> Term:
        """A float64 term, stored in a temporary node because it is read several times."""
        node = self._slots.local(name, 0, float64)
        node.write(None, True, value)
        return node

    def unit(self, bits: int, number: int = 0, count: int = 1) -> Term:
        """Uniform number `number` of `count` numbers in [0, 1), a multiple of `2**-bits`."""
        if bits <= 32:
            word = symbolic_terms.apply("right_shift", self(number, count), 32 - bits)
            return symbolic_terms.convert(word, float32) * 2.0**-bits
        high, low = self(2 * number, 2 * count), self(2 * number + 1, 2 * count)
        top = symbolic_terms.convert(high, float64) * 2.0 ** (bits - 32)
        return (top + symbolic_terms.convert(symbolic_terms.apply("right_shift", low, 64 - bits), float64)) * 2.0**-bits


    def open_unit(self, number: int = 0, count: int = 1) -> Term:
        """Uniform number `number` of `count` numbers in (0, 1), as float64: the center of one of 2**32 equal intervals,
        or 2**52 for elements of type float64."""
        if significand_bits(self.kind) <= 24:
            return (symbolic_terms.convert(self(number, count), float64) + 0.5) * 2.0**-32
        high, low = self(2 * number, 2 * count), self(2 * number + 1, 2 * count)
        low_bits = symbolic_terms.convert(symbolic_terms.apply("right_shift", low, 12), float64)
        return (symbolic_terms.convert(high, float64) * 2.0**20 + low_bits + 0.5) * 2.0**-52


def calls(stream: Stream) -> Tensor:
    """The number of previous runs of the code that draws from a stream, in a context."""
    start = CallCounter(stream)
    node = TNode("calls", Role.STATE, lambda: (), lambda: uint32, contents=start, where=site().where)

    def emit(t: Tensor) -> Shape:
        return Shape.leaf(t.provenance, role=Role.STATE.value, batch=[], input=[], output=[])

    typing = dtype_inference.leaf_dtype(uint32).bind(node)
    return Tensor(node, emit, typing, application=Application(_COUNT_CALLS, (), {}))


def is_random_source(t: Tensor) -> bool:
    """Whether a tensor is the key of a random stream, or the number of its calls."""
    return t.node.role is not Role.PARAMETER and isinstance(t.node.contents, Stream | CallCounter)


STEP_STRIDE = 2654435769  # 2**32 divided by the golden ratio: counters of different calls and steps are far apart


def _in_steps(counter: Tensor) -> Tensor:
    """The counter in the body of a loop, where each step draws other numbers."""
    for position in loop_positions.get():
        counter = REGISTRY["cast"](counter, uint32) * STEP_STRIDE + position
    return counter


def draw(
    name: str,
    parameters: Sequence[Tensor],
    formula: Callable[..., Term],
    kind: Precision | None,
    key: str | None,
    counter: object,
    label: str | None,
    contents: RandomInitializer | None = None,
    *,
    is_open: bool = False,
) -> Tensor:
    """Samples of the shape of a tensor, or of several that broadcast, by a formula of the random words and their cells.

    Without a `kind` they have the promoted type of the parameters, or, with `is_open`, the type that their users
    require.
    """
    if key is not None and not isinstance(key, str):
        raise CodeError(f"`key` of oc.{name} is a text that names the stream, not {key!r}")
    stream = Stream(key, block_application.next_stream())
    key_name = LeafName("key", site().where)
    stream_key = leaf(key_name, Role.DATA, uint32, {**NO_AXES, "output": [5]}, contents=stream)
    call = _in_steps(calls(stream) if counter is None else _counter(name, counter))
    number = len(parameters)

    def forward(s: Slots) -> None:
        result = formula(RandomBits(s, number), *s.operands[:number])
        s.result().write(None, True, result)

    result_type = ResultType(kind, weak_operands=frozenset(range(number, number + 6)), follows_consumers=is_open)
    operation = Sampling(
        name, _draw_logic(number), forward, None, result_type=result_type, text=f"{name}()", contents=contents
    )
    return apply(operation, [*parameters, *[stream_key] * 5, call], label=label)


def _draw_logic(parameters: int) -> Logic:
    spec = parse("...|...->...; " * parameters + "0; 1; 2; 3; 4; => ...|...->...")
    stretched = (EQUAL if parameters == 1 else STRETCHED,) * parameters
    return Logic("draw", spec, (*stretched, *(EQUAL,) * 6), needs_axes=False)


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


def sized_like(sizes: dict[str, Any]) -> tuple[Tensor, Precision | None, str | None]:
    """A tensor of the requested shape, the requested type, and the label."""
    kind = sizes.pop("dtype", None)
    label = sizes.pop("label", None)
    return full(0, **sizes), None if kind is None else precision(kind), label


def is_finite(value: object) -> bool:
    return is_number(value) and math.isfinite(python_number(value))

"""How the axes of one operation's tensors belong together, as data.

A logic is a spec, and for every row whether it *equals* what the spec says, or may be *stretched* to it by broadcasting.
It is read twice: as an order, to infer sizes (`generate`), and as an equivalence, to find out which axes share a loop
(`project`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ocannl.infer.parse import parse
from ocannl.infer.spec import Fixed, RowSpec, ShapeSpec, Spec, ellipsis_var
from ocannl.ir.index import Sym

Stretch = tuple[bool, bool, bool]
EQUAL: Stretch = (False, False, False)
STRETCHED: Stretch = (True, True, True)


@dataclass(frozen=True, slots=True)
class Logic:
    """`stretched[n]` tells of the rows of operand `n`, in the order batch, input, output, whether they may be stretched.

    The rows of the result equal those of the spec. With `asks`, axes mean something to the operation, so that a
    parameter of which nothing tells them is an error; without, it may be a number as well.
    """

    name: str
    spec: Spec
    stretched: tuple[Stretch, ...]
    asks: bool = True

    @property
    def arity(self) -> int:
        return len(self.spec.operands)

    def __str__(self) -> str:
        return f'"{self.spec.text or self.spec}"' if self.name == "einsum" else self.name


ALL_ROWS = ShapeSpec(*(RowSpec(var=ellipsis_var(kind)) for kind in ("batch", "input", "output")))


@cache
def pointwise(operands: int) -> Logic:
    """Cell by cell; every row of every operand may be stretched."""
    return Logic("pointwise", Spec((ALL_ROWS,) * operands, ALL_ROWS), (STRETCHED,) * operands, asks=False)


COMPOSE = Logic(
    "compose",
    parse("..b..|..k..->..o..; ..b..|..i..->..k.. => ..b..|..i..->..o.."),
    ((True, False, True), STRETCHED),
)
"""Tensor multiplication: the input row of the first operand meets the output row of the second."""

COMPOSE_ACCUMULATE = Logic(
    "compose and accumulate",
    parse("..b..|..k..->..o..; ..b..|..i..->..k..; ..b..|..i..->..o.. => ..b..|..i..->..o.."),
    ((True, False, True), STRETCHED, STRETCHED),
)
"""Tensor multiplication, and a third operand that is added to it."""

TRANSPOSE = Logic("transpose", parse("..b..|..i..->..o.. => ..b..|..o..->..i.."), (STRETCHED,), asks=False)
"""Input and output rows change places."""


def einsum(spec: Spec) -> Logic:
    """What the user wrote: nothing is stretched."""
    return Logic("einsum", spec, (EQUAL,) * len(spec.operands))


def slice_batch(index: int | Sym) -> Logic:
    """The leftmost batch axis at one index, which may be a symbol that is told at run time."""
    rest = ALL_ROWS.input, ALL_ROWS.output
    whole = ShapeSpec(RowSpec((Fixed(index),), ALL_ROWS.batch.var), *rest)
    return Logic("slice", Spec((whole,), ALL_ROWS), (EQUAL,), asks=False)

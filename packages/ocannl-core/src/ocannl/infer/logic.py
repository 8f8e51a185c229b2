"""How the axes of one operation's tensors belong together, as data.

A logic is a spec, and for every row of an operand whether it *equals* what the spec says, or may be *stretched* to it
by broadcasting; the rows of the result equal it. It is read twice: as an order, to infer sizes (`generate`), and as an
equivalence, to find out which axes share a loop (`project`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ocannl.infer.parse import parse
from ocannl.infer.spec import Fixed, RowSpec, ShapeSpec, Spec, ellipsis_var
from ocannl.infer.unsized import unsized_names
from ocannl.ir.index import Sym

Stretch = tuple[bool, bool, bool]
EQUAL: Stretch = (False, False, False)
STRETCHED: Stretch = (True, True, True)


class RowUse(NamedTuple):
    """What the spec says about one row: of operand `slot // 3`, or of the result when that is one more than the last.

    meets    operands meet along this row: it matters to the operation how many axes there are
    inner    the row of another operand, not of the result, is what it may be stretched to
    """

    slot: int
    spec: RowSpec
    meets: bool
    inner: bool


@dataclass(frozen=True, slots=True)
class Logic:
    """`stretched[n]` tells which rows of operand `n` may be stretched, in the order batch, input, output.

    `unsized` are the names of labels and row variables whose size follows from no operand.

    With `asks`, axes mean something to the operation: a parameter of which nothing tells them is an error, where it
    might else be a number.
    """

    name: str
    spec: Spec
    stretched: tuple[Stretch, ...]
    needs_axes: bool = True
    equal: tuple[RowUse, ...] = field(init=False, compare=False, repr=False)
    stretch: tuple[RowUse, ...] = field(init=False, compare=False, repr=False)
    result: tuple[RowUse, ...] = field(init=False, compare=False, repr=False)
    unsized: tuple[str, ...] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.name, self.spec, self.stretched, self.needs_axes)))
        uses = [
            (3 * n + k, row, stretched[k])
            for n, (shape, stretched) in enumerate(zip(self.spec.operands, self.stretched, strict=True))
            for k, (_, row) in enumerate(shape.rows)
        ]
        targets = {row.var for _, row, stretched in uses if not stretched}
        counts = Counter(row.var for _, row, _ in uses)
        result_vars = {None, *(row.var for _, row in self.spec.result.rows)}
        meets = {name for name, times in counts.items() if times > 1 and name not in result_vars}
        row_uses = {slot: RowUse(slot, row, row.var in meets, row.var in targets) for slot, row, _ in uses}
        object.__setattr__(self, "equal", tuple(row_uses[slot] for slot, _, stretched in uses if not stretched))
        object.__setattr__(self, "stretch", tuple(row_uses[slot] for slot, _, stretched in uses if stretched))
        result = (RowUse(3 * self.arity + k, row, False, False) for k, (_, row) in enumerate(self.spec.result.rows))
        object.__setattr__(self, "result", tuple(result))
        object.__setattr__(self, "unsized", unsized_names(self.spec))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arity(self) -> int:
        return len(self.spec.operands)

    def __str__(self) -> str:
        return f"`{self.spec.text or self.spec}`" if self.name == "einsum" else f"a {self.name}"


ALL_ROWS = ShapeSpec(*(RowSpec(var=ellipsis_var(kind)) for kind in ("batch", "input", "output")))


@cache
def pointwise(operands: int) -> Logic:
    """Cell by cell; every row of every operand may be stretched."""
    return Logic("pointwise", Spec((ALL_ROWS,) * operands, ALL_ROWS), (STRETCHED,) * operands, needs_axes=False)


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

TRANSPOSE = Logic("transpose", parse("..b..|..i..->..o.. => ..b..|..o..->..i.."), (STRETCHED,), needs_axes=False)
"""Input and output rows change places."""


def einsum(spec: Spec) -> Logic:
    """What the user wrote: nothing is stretched."""
    return Logic("einsum", spec, (EQUAL,) * len(spec.operands))


def slice_batch(index: int | Sym) -> Logic:
    """The leftmost batch axis at one index, which may be a symbol that is told at run time."""
    sliced = ShapeSpec(RowSpec((Fixed(index),), ALL_ROWS.batch.var), ALL_ROWS.input, ALL_ROWS.output)
    return Logic("slice", Spec((sliced,), ALL_ROWS), (EQUAL,), needs_axes=False)

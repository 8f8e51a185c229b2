"""Logic of an operation: the relation between the axes of its tensors, as data.

A logic is a spec, with a flag per operand row: the row either *equals* the row of the spec or may be *stretched* to it
by broadcasting; rows of the result are equal. Logics have two interpretations: as an order, for size inference
(`generate`), and as an equivalence, for loop identities (`project`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ocannl.infer.parse import parse
from ocannl.infer.spec import Fixed, RowSpec, ShapeSpec, Spec, ellipsis_var
from ocannl.infer.unsized_names import unsized_names
from ocannl.ir.affine import Sym

Stretch = tuple[bool, bool, bool]
EQUAL: Stretch = (False, False, False)
STRETCHED: Stretch = (True, True, True)


class RowUse(NamedTuple):
    """Use of a row in a spec, by slot: row `slot % 3` of operand `slot // 3`, or of the result after the last operand.

    meets    operands meet along this row, so that the operation needs its axes
    inner    the row may be stretched to a row of another operand instead of the result
    """

    slot: int
    spec: RowSpec
    meets: bool
    inner: bool


@dataclass(frozen=True, slots=True)
class Logic:
    """Spec with broadcasting flags.

    stretched    for each operand, whether its batch, input and output row may be stretched
    needs_axes   unconstrained parameters are an error; otherwise they default to scalars
    fix          what to do about sizes that disagree, in errors; by default it follows from the flags
    unsized      labels and row variables that no operand sizes
    """

    name: str
    spec: Spec
    stretched: tuple[Stretch, ...]
    needs_axes: bool = True
    fix: str = field(default="", compare=False)
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
    """Elementwise logic: every row of every operand may be stretched."""
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
"""Tensor multiplication with a third operand that is added."""

TRANSPOSE = Logic("transpose", parse("..b..|..i..->..o.. => ..b..|..o..->..i.."), (STRETCHED,), needs_axes=False)
"""Swaps input and output rows."""


def einsum(spec: Spec) -> Logic:
    """Logic of a user-written spec: no row is stretched."""
    return Logic("einsum", spec, (EQUAL,) * len(spec.operands))


def slice_batch(index: int | Sym) -> Logic:
    """Slice of the leftmost batch axis at one index, a number or a symbol bound at run time."""
    sliced = ShapeSpec(RowSpec((Fixed(index),), ALL_ROWS.batch.var), ALL_ROWS.input, ALL_ROWS.output)
    return Logic("slice", Spec((sliced,), ALL_ROWS), (EQUAL,), needs_axes=False)

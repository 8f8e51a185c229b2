"""Slots: the placeholders for tensors in the rules of an operation, and their elaboration to assignments.

    v t g      value of the result (v and t are synonyms), and its gradient
    v1 t1 g1   value and gradient of the first operand, and so on

A slot is read as a term and written by an assignment: `v["=:"] = e`, `g1 += e`. The projections of the operation give
the indices of every slot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ocannl.base.errors import CodeError, ShapeError
from ocannl.ir.affine import TRUE, Affine, Cond, bounds_condition
from ocannl.ir.assign import Assign, Index, IndirectIndex, Origin, Piece, Read, Value
from ocannl.ir.ops import ADD, BY_NAME, Op
from ocannl.ir.precision import float64
from ocannl.ir.projections import Projection, Projections, is_injective
from ocannl.ir.value_symbols import value_symbols
from ocannl.lang.core.block_scans import SlotScan
from ocannl.lang.core.group_extremes import GroupExtremes
from ocannl.lang.core.host_calls import HostResult, NodeUpdate, SlotHostCall
from ocannl.lang.core.indirect_axes import SlotAxes, with_indirect_axes, with_used_loops
from ocannl.lang.core.recurrences import Recurrence
from ocannl.lang.core.selection_rounds import SelectionRounds
from ocannl.lang.core.symbolic_terms import (
    AxisIndex,
    Hole,
    ShiftedRead,
    Term,
    Tree,
    holes,
    instantiate,
    tree_of,
    with_constants_in,
)

ACCUMULATORS: dict[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "?/": "relu_gate", "?^": "sat01_gate", "||": "or",
    "&&": "and", "@^": "max", "@-": "min",
}  # fmt: skip


def parse_assignment(text: object) -> tuple[Op | None, bool]:
    """Parses `=+`, `=:+`, ...: the accumulating operation, and whether the target is cleared first; `=:` is a store."""
    if isinstance(text, str) and text.startswith("="):
        clear = text.startswith("=:")
        sign = text[2 if clear else 1 :]
        if clear and not sign:
            return None, True
        if sign in ACCUMULATORS:
            return BY_NAME[ACCUMULATORS[sign]], clear
    signs = " ".join(f"={a}" for a in ACCUMULATORS)
    expected = f"the assignments are =: (store) and {signs}, and each of these after =:"
    raise CodeError(f"{text!r} is not an assignment; {expected}")


@dataclass(frozen=True, slots=True)
class ConcatParts:
    """The parts of a concatenation: one formula per operand, of which every box uses that of the operand it covers."""

    choices: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class SlotAssign:
    """`target <- target accum tree`, where every hole is read at the index of its slot.

    With `is_concat` there is one tree per operand; a box uses the tree of the operand it covers. `at` are the indices
    of indirect axes, by label. An assignment with `at` iterates only over the loops that it uses.
    """

    target: Hole
    accum: Op | None
    clear: bool
    trees: tuple[Tree, ...]
    is_concat: bool = False
    at: tuple[tuple[str, Tree], ...] | None = None


@dataclass(frozen=True, slots=True)
class SlotRecurrence:
    """A recurrence; `steps` are the parallel form."""

    steps: tuple[SlotAssign, ...]
    recurrence: Recurrence


SlotStatement = SlotAssign | SlotHostCall | SlotScan | SlotRecurrence | NodeUpdate | GroupExtremes | SelectionRounds


class Slot(Term):
    """A hole that can also be written."""

    __slots__ = ("_out", "hole")

    def __init__(self, hole: Hole, out: list[SlotStatement]) -> None:
        super().__init__(hole)
        self.hole = hole
        self._out = out

    def write(self, accum: Op | None, clear: bool, value: object, at: Mapping[str, Term] | None = None) -> None:
        if isinstance(value, HostResult):
            value.write(self.hole, accum, clear, self._out)
            return
        is_concat = isinstance(value, ConcatParts)
        choices = value.choices if isinstance(value, ConcatParts) else (value,)
        trees, indices = tuple(map(tree_of, choices)), None
        if at is not None:
            indices = tuple((label, tree_of(index)) for label, index in at.items())
        self._out.append(SlotAssign(self.hole, accum, clear, trees, is_concat, indices))

    def __setitem__(self, spelling: object, value: object) -> None:
        self.write(*((None, True) if spelling is Ellipsis else parse_assignment(spelling)), value)

    def __iadd__(self, value: object) -> Slot:
        self.write(ADD, False, value)
        return self

    def __isub__(self, value: object) -> Slot:
        self.write(BY_NAME["sub"], False, value)
        return self


class NullSlot:
    """The gradient slot of an operand without gradient; writes are discarded."""

    __slots__ = ()

    def write(self, accum: Op | None, clear: bool, value: object, at: Mapping[str, Term] | None = None) -> None:
        pass

    def __setitem__(self, spelling: object, value: object) -> None:
        if spelling is not Ellipsis:
            parse_assignment(spelling)

    def __iadd__(self, value: object) -> NullSlot:
        return self

    __isub__ = __iadd__


def elaborate(
    assigns: list[SlotAssign],
    projections: Projections,
    outside: float | None,
    origin: Origin,
    slot_axes: SlotAxes | None = None,
) -> Iterator[Assign]:
    """Elaborates slot assignments. Reads out of bounds give `outside`; writes out of bounds are masked. `slot_axes` are
    the axes of the labels, if there are indirect axes.

    Raises: CodeError for stores of several values in one cell; the last wins where indices of the cell are indirect.
    """
    for a in assigns:
        pieces = []
        for projection in projections.pieces:
            piece = _piece(a, projection, projections, outside, slot_axes or {})
            if piece is not None:
                if a.accum is None and not a.at:
                    _refuse_several_values(piece, a.target.node.label, origin)
                pieces.append(piece)
        yield Assign(a.target.node, a.accum, a.clear, tuple(pieces), origin)


def _refuse_several_values(piece: Piece, label: str, origin: Origin) -> None:
    """Refuses a store of different values in one cell; loops that the value does not depend on store an equal one."""
    read = set(value_symbols(piece.value))
    loops = [loop for loop in piece.loops if loop in read]
    if is_injective(piece.indices, loops):
        return
    used = {sym for index in piece.indices for sym in index.syms}
    number = math.prod(loop.extent for loop in loops if loop not in used)
    problem = f"{number} values are stored in each cell of `{label}`" if number > 1 else (
        f"several values are stored in one cell of `{label}`"
    )
    where = f"\n  in   {origin.label}  {origin.where}" if origin.where else ""
    fix = "accumulate them, as in `=:+` or `=:@^`, or select one by a number in place of its axis"
    raise CodeError(f"{problem}: the last would win{where}\n  fix  {fix}")


def _piece(
    a: SlotAssign,
    projection: Projection,
    projections: Projections,
    outside: float | None,
    slot_axes: SlotAxes,
) -> Piece | None:
    at = a.at or ()
    projection, syms = with_indirect_axes(projection, projections, [slot_axes[label] for label, _ in at])

    def read(leaf: Hole | AxisIndex | ShiftedRead) -> Value:
        hole = leaf.hole if isinstance(leaf, ShiftedRead) else leaf
        indices, dims = projection.at(hole.slot), projections.dims(hole.slot)
        assert indices is not None
        if isinstance(hole, AxisIndex):
            return Index(indices[hole.axis])
        padding = outside
        if isinstance(leaf, ShiftedRead):
            indices, padding = _shifted(indices, leaf, projection), leaf.outside
        in_bounds = all(bounds_condition(index, size).is_true for index, size in zip(indices, dims, strict=True))
        return Read(hole.node, indices, None if in_bounds else padding, hole.merge)

    indices, dims = projection.at(a.target.slot), projections.dims(a.target.slot)
    slots_read = [{n} if a.is_concat else {hole.slot for hole in holes(tree)} for n, tree in enumerate(a.trees, 1)]
    present = [t for t, slots in zip(a.trees, slots_read, strict=True) if None not in map(projection.at, slots)]
    if indices is None or not present:
        return None
    if len(present) > 1:
        raise ShapeError("two operands overlap: give each of them an axis of its own in the spec")
    when: Cond = TRUE
    for index, size in zip(indices, dims, strict=True):
        in_bounds = bounds_condition(index, size)
        when = when if in_bounds.is_true else when & in_bounds
    indirect = tuple(IndirectIndex(sym, instantiate(tree, read)) for sym, (_, tree) in zip(syms, at, strict=True))
    value = instantiate(present[0], read)
    if a.target.node.precision is float64:
        value = with_constants_in(float64, value)
    piece = Piece(projection.loops, indices, value, when, indirect)
    return piece if a.at is None else with_used_loops(piece)


def _shifted(indices: tuple[Affine, ...], leaf: ShiftedRead, projection: Projection) -> tuple[Affine, ...]:
    along = projection.at(leaf.along)
    sym = along[0].only_sym if along else None
    assert sym is not None
    return tuple(index.substitute({sym: Affine.of(sym) + leaf.shift}) for index in indices)

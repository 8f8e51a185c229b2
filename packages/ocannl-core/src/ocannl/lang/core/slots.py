"""The slots of an operation: how its declaration speaks of the tensors it is applied to, and how that becomes code.

    v t g      the result's value, value again, and gradient
    v1 t1 g1   those of the first operand, and so on

A slot is read as a term and written by an assignment: `v["=:"] = e`, `g1 += e`. The projections of the operation give
the indices of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ocannl.base.errors import CodeError, ShapeError
from ocannl.ir.assign import Assign, Index, Origin, Pick, Piece, Read, Value
from ocannl.ir.index import TRUE, Affine, Cond, Sym, SymKind, inside
from ocannl.ir.ops import ADD, BY_NAME, Op
from ocannl.ir.projections import Projection, Projections
from ocannl.lang.core.terms import Hole, Place, Shifted, Term, Tree, holes, instantiate, tree_of

ACCUMULATORS: dict[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "?/": "relu_gate", "?^": "sat01_gate", "||": "or",
    "&&": "and", "@^": "max", "@-": "min",
}  # fmt: skip


def spelled(text: object) -> tuple[Op | None, bool]:
    """The accumulating operation of `=+`, `=:+`, ..., and whether it clears first; `=:` is a plain store."""
    if isinstance(text, str) and text.startswith("="):
        clear = text.startswith("=:")
        rest = text[2 if clear else 1 :]
        if clear and not rest:
            return None, True
        if rest in ACCUMULATORS:
            return BY_NAME[ACCUMULATORS[rest]], clear
    known = " ".join(f"={a}" for a in ACCUMULATORS)
    raise CodeError(f"{text!r} is not an assignment; there are =: (store) and {known}, each also as =: with that sign")


@dataclass(frozen=True, slots=True)
class Present:
    """A formula for each operand, of which a box takes the one whose operand takes part in it: the parts of a
    concatenation."""

    choices: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class SlotAssign:
    """target <- target accum tree, where every hole has the index of its slot; of `parts`, a tree for each operand, the
    one that is present in a box."""

    target: Hole
    accum: Op | None
    clear: bool
    trees: tuple[Tree, ...]
    parts: bool = False


class Slot(Term):
    """A hole that can also be written."""

    __slots__ = ("_out", "hole")

    def __init__(self, hole: Hole, out: list[SlotAssign]) -> None:
        super().__init__(hole)
        self.hole = hole
        self._out = out

    def write(self, accum: Op | None, clear: bool, value: object) -> None:
        choices = value.choices if isinstance(value, Present) else (value,)
        self._out.append(SlotAssign(self.hole, accum, clear, tuple(map(tree_of, choices)), isinstance(value, Present)))

    def __setitem__(self, spelling: object, value: object) -> None:
        self.write(*((None, True) if spelling is Ellipsis else spelled(spelling)), value)

    def __iadd__(self, value: object) -> Slot:
        self.write(ADD, False, value)
        return self

    def __isub__(self, value: object) -> Slot:
        self.write(BY_NAME["sub"], False, value)
        return self


class NoSlot:
    """The gradient of an operand that has none: what is added to it is dropped."""

    __slots__ = ()

    def write(self, accum: Op | None, clear: bool, value: object) -> None:
        pass

    def __setitem__(self, spelling: object, value: object) -> None:
        if spelling is not Ellipsis:
            spelled(spelling)

    def __iadd__(self, value: object) -> NoSlot:
        return self

    __isub__ = __iadd__


_NAME = re.compile(r"([vtg])([1-9][0-9]*)?")


def slot_of(name: str, operands: int) -> tuple[str, int] | None:
    """The letter and the number of a slot, or None when an operation of that many operands has no such slot."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    number = int(found[2] or 0)
    return (found[1], number) if number <= operands else None


@dataclass(frozen=True, slots=True)
class Picked:
    """Axis `axis` of the tensor at `slot` is not walked: it is where the value of `place` says."""

    slot: int
    axis: int
    place: Tree


def elaborate(
    assigns: list[SlotAssign],
    projections: Projections,
    outside: float | None,
    origin: Origin,
    picked: tuple[Picked, ...] = (),
) -> Iterator[Assign]:
    """Slot assignments as code. A read that leaves its array gives `outside`; a write that leaves it is not done."""
    for a in assigns:
        pieces = []
        for projection in projections.pieces:
            piece = _piece(a, projection, projections, outside, picked)
            if piece is not None:
                pieces.append(piece)
        yield Assign(a.target.node, a.accum, a.clear, tuple(pieces), origin)


def _piece(
    a: SlotAssign, walked: Projection, projections: Projections, outside: float | None, picked: tuple[Picked, ...]
) -> Piece | None:
    projection, places = _picking(walked, projections, picked)

    def read(leaf: Hole | Place | Shifted) -> Value:
        hole = leaf.hole if isinstance(leaf, Shifted) else leaf
        at, dims = projection.at(hole.slot), projections.dims(hole.slot)
        assert at is not None
        if isinstance(hole, Place):
            return Index(at[hole.axis])
        beyond = outside
        if isinstance(leaf, Shifted):
            at, beyond = _shifted(at, leaf, projection), leaf.outside
        leaves = not all(inside(i, n).is_true for i, n in zip(at, dims, strict=True))
        return Read(hole.node, at, beyond if leaves else None, hole.merge)

    at, dims = projection.at(a.target.slot), projections.dims(a.target.slot)
    needed = [{n} if a.parts else {hole.slot for hole in holes(tree)} for n, tree in enumerate(a.trees, 1)]
    present = [t for t, slots in zip(a.trees, needed, strict=True) if None not in map(projection.at, slots)]
    if at is None or not present:
        return None
    if len(present) > 1:
        raise ShapeError("two operands are laid in the same place: give each of them an axis of its own in the spec")
    when: Cond = TRUE
    for index, size in zip(at, dims, strict=True):
        fact = inside(index, size)
        when = when if fact.is_true else when & fact
    picks = tuple(Pick(sym, instantiate(p.place, read)) for sym, p in zip(places, picked, strict=True))
    return Piece(projection.loops, at, instantiate(present[0], read), when, picks)


def _shifted(at: tuple[Affine, ...], leaf: Shifted, projection: Projection) -> tuple[Affine, ...]:
    along = projection.at(leaf.along)
    sym = along[0].only_sym if along else None
    assert sym is not None
    return tuple(index.substitute({sym: Affine.of(sym) + leaf.by}) for index in at)


def _picking(
    projection: Projection, projections: Projections, picked: tuple[Picked, ...]
) -> tuple[Projection, list[Sym]]:
    """The same cells with symbols that are picked instead of loops, and these symbols."""
    syms: list[Sym] = []
    for p in picked:
        at = projection.at(p.slot)
        assert at is not None
        old, size = at[p.axis].only_sym, projections.dims(p.slot)[p.axis]
        syms.append(Sym(old.name if old else "at", 0, size - 1, SymKind.PICKED))
        place = Affine.of(syms[-1])
        if old is None:  # an axis of size 1, which nobody walks
            operands = list(projection.operands)
            operands[p.slot - 1] = (*at[: p.axis], place, *at[p.axis + 1 :])
            projection = replace(projection, operands=tuple(operands))
            continue
        swap = {old: place}
        projection = Projection(
            tuple(loop for loop in projection.loops if loop is not old),
            tuple(i.substitute(swap) for i in projection.result),
            tuple(o and tuple(i.substitute(swap) for i in o) for o in projection.operands),
        )
    return projection, syms

"""Indirect axes: axes of an operation without a loop, whose index is computed in each iteration.

    take         y[s, r] = x[v, r]      the index of `v` is ids[s]: a gather
    segment_sum  y[n, r] =+ x[s, r]     the index of `n` is ids[s]: a scatter

An assignment names its indirect axes by the labels of the spec: `s.result().write(ADD, True, x, at={"n": ids})`. Where
an index is out of bounds, the iteration is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ocannl.infer.shape_view import TensorShape
from ocannl.infer.spec import MEMORY_ORDER, Label, ShapeSpec, Spec
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Piece
from ocannl.ir.projections import Projection, Projections
from ocannl.ir.value_symbols import value_symbols

SlotAxis = tuple[int, int]
"""An axis of a tensor of the operation: its slot, and the position in memory order."""

SlotAxes = Mapping[str, Sequence[SlotAxis]]
"""The axes of each label."""


def slot_axes_by_label(spec: Spec, shapes: Sequence[TensorShape]) -> SlotAxes:
    """The axes of all labels, given the shapes of the result and the operands."""
    slot_axes: dict[str, list[SlotAxis]] = {}
    for slot, (axes, shape) in enumerate(zip((spec.result, *spec.operands), shapes, strict=True)):
        for label, axis in labelled_axes(axes, shape):
            slot_axes.setdefault(label, []).append((slot, axis))
    return slot_axes


def labelled_axes(axes: ShapeSpec, shape: TensorShape) -> Iterator[tuple[str, int]]:
    """The labels of a shape, each with the position of its axis in memory order."""
    rows, start = dict(axes.rows), 0
    for kind in MEMORY_ORDER:
        row, count = rows[kind], len(getattr(shape, kind))
        trail_start = start + count - len(row.trail)
        for part, first in ((row.lead, start), (row.trail, trail_start)):
            yield from ((axis.name, first + n) for n, axis in enumerate(part) if isinstance(axis, Label))
        start += count


def with_indirect_axes(
    projection: Projection, projections: Projections, axes: Iterable[Sequence[SlotAxis]]
) -> tuple[Projection, list[Sym]]:
    """The projection with the loops of indirect axes replaced by bound symbols, and these symbols."""
    syms: list[Sym] = []
    for slot_axes in axes:
        slot, axis = slot_axes[0]
        indices = projection.at(slot)
        assert indices is not None
        old, size = indices[axis].only_sym, projections.dims(slot)[axis]
        syms.append(Sym(old.name if old else "at", 0, size - 1, SymKind.INDIRECT))
        index = Affine.of(syms[-1])
        projection = _at(projection, slot_axes, index) if old is None else _without_loop(projection, old, index)
    return projection, syms


def _at(projection: Projection, slot_axes: Sequence[SlotAxis], index: Affine) -> Projection:
    """The projection with the index of axes of size 1, which have no loop, replaced."""
    slots = [list(indices) if indices is not None else None for indices in (projection.result, *projection.operands)]
    for slot, axis in slot_axes:
        indices = slots[slot]
        if indices is not None:
            indices[axis] = index
    result, *operands = (None if indices is None else tuple(indices) for indices in slots)
    assert result is not None
    return replace(projection, result=result, operands=tuple(operands))


def _without_loop(projection: Projection, loop: Sym, index: Affine) -> Projection:
    substitution = {loop: index}
    return Projection(
        tuple(sym for sym in projection.loops if sym is not loop),
        tuple(i.substitute(substitution) for i in projection.result),
        tuple(o and tuple(i.substitute(substitution) for i in o) for o in projection.operands),
    )


def with_used_loops(piece: Piece) -> Piece:
    """The piece without the loops that neither the target, nor the value, nor an index of it uses."""
    used = {sym for index in piece.indices for sym in index.syms}
    used |= {sym for value in (piece.value, *(p.value for p in piece.indirect)) for sym in value_symbols(value)}
    return replace(piece, loops=tuple(loop for loop in piece.loops if loop in used))

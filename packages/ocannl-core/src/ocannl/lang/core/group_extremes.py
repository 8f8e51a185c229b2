"""Extremes of groups of consecutive cells along one axis, in rules of operations whose host calls search that axis."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Origin, Piece, Read
from ocannl.ir.ops import Op
from ocannl.ir.tnode import TNode, temporary_of


@dataclass(frozen=True, slots=True)
class GroupExtremes:
    """`target <- op of each full group of cells of source`, along an axis of the source."""

    target: TNode
    source: TNode
    axis: int
    group: int
    op: Op

    def elaborate(self, origin: Origin) -> Assign:
        loops = tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(self.target.dims))
        cell = Sym("cell", 0, self.group - 1)
        targets = tuple(Affine.of(loop) if loop.extent != 1 else Affine() for loop in loops)
        sources = (*targets[: self.axis], targets[self.axis] * self.group + cell, *targets[self.axis + 1 :])
        used = tuple(loop for loop in (*loops, cell) if loop.extent != 1)
        return Assign(self.target, self.op, True, (Piece(used, targets, Read(self.source, sources)),), origin)


def group_extremes(source: TNode, axis: int, group: int, op: Op) -> GroupExtremes:
    """The statement, with a target of its own."""
    dims = tuple(size // group if n == axis else size for n, size in enumerate(source.dims))
    return GroupExtremes(temporary_of(source, op.name, dims, source.precision), source, axis, group, op)

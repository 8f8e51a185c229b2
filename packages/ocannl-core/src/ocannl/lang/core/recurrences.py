"""First-order recurrences along one axis, of which a result is computed:

    state[i]  = added[i] + carry(carried[i], state[i + direction])
    result[i] = finish(state[i])

The parallel form consists of steps, each of which doubles the range that a cell has accumulated. The sequential form is
a loop over the axis, on vectors of the cells of other axes:

    state[j] = 0
    for i:
      state[j] = added[i, j] + carry(carried[i, j], state[j])
      result[i, j] = finish(state[j])

If the axes after the scanned one do not fill vectors, the loop reads and writes transposed copies, in which the scanned
axis is the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Comp, Convert, Loop, Number, Origin, ParallelForm, Piece, Read, Seq, Value
from ocannl.ir.precision import Precision
from ocannl.ir.projections import Indices, Projections
from ocannl.ir.tnode import TNode, temporary_of
from ocannl.lang.core.sequential_scans import MIN_ROW, divide_into_rows, iteration
from ocannl.lang.core.symbolic_terms import AxisIndex, Hole, ShiftedRead, Term, Tree, holes, instantiate


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A recurrence that is stored in `target`, a node of the shape of slot 0. `direction` is 1 if a cell depends on the
    following one, -1 if on the preceding one; `along` is the slot of the tensor whose only axis is that of the
    recurrence."""

    target: TNode
    carried: Tree
    added: Tree
    carry: Callable[[Term, Term], Term]
    finish: Callable[[Term], Term]
    direction: int
    along: int
    projections: Projections

    def elaborate(self, parallel: tuple[Comp, ...], origin: Origin) -> Seq:
        """Returns the code, given the parallel form."""
        loops = _Loops(self, origin).code()
        return Seq(parallel) if loops is None else ParallelForm(parallel, sequential=loops)


class _Loops:
    """The sequential form of a recurrence."""

    def __init__(self, recurrence: Recurrence, origin: Origin) -> None:
        (self.projection,) = recurrence.projections.pieces
        (along,) = self.projection.at(recurrence.along) or ()
        assert along.only_sym is not None
        self.recurrence, self.origin, self.position = recurrence, origin, along.only_sym
        self.syms = tuple([index.only_sym for index in self.projection.result if index.only_sym is not None])

    def code(self) -> Comp | None:
        """Returns None if rows do not fill vectors."""
        position, target = self.position, self.recurrence.target
        cell_syms = tuple([sym for sym in self.syms if sym is not position])
        if set(self.syms) != set(self.projection.loops) or prod(sym.extent for sym in cell_syms) < MIN_ROW:
            return None
        axis = self.syms.index(position)
        outer, inner = self.syms[:axis], self.syms[axis + 1 :]
        if prod(sym.extent for sym in inner) >= MIN_ROW:
            result = self.projection.result
            return self._loops(outer, inner, target, result, lambda hole: (hole.node, self._indices(hole)))
        cell = (position, *cell_syms)
        indices = tuple(map(Affine.of, cell))
        finish = self.recurrence.finish(Term(Number(0))).tree
        trees = self.recurrence.carried, self.recurrence.added, finish
        read = dict.fromkeys(hole for tree in trees for hole in holes(tree))
        copies = {hole: self._node(hole.node.label, hole.node.precision, cell) for hole in read}
        transposed = self._node("result", target.precision, cell)
        return Seq((
            *(self._store(copy, cell, indices, Read(hole.node, self._indices(hole))) for hole, copy in copies.items()),
            self._loops((), cell_syms, transposed, indices, lambda hole: (copies[hole], indices)),
            self._store(target, cell, self.projection.result, Read(transposed, indices)),
        ))  # fmt: skip

    def _loops(
        self, outer: tuple[Sym, ...], inner: tuple[Sym, ...], result: TNode, indices: Indices,
        cell_of: Callable[[Hole], tuple[TNode, Indices]],
    ) -> Comp:  # fmt: skip
        """The loops that store the recurrence in the cells `indices` of `result`; `cell_of` gives the node and the
        indices of a hole."""
        cell_syms = (*outer, *inner)
        state, state_cell = self._node("state", result.precision, cell_syms), tuple(map(Affine.of, cell_syms))
        private = (state, result)
        step = iteration(self.position.name, self.position.extent)
        at = Affine.of(step) if self.recurrence.direction < 0 else Affine.of(step.hi) - step

        def read(leaf: Hole | AxisIndex | ShiftedRead) -> Value:
            shift, outside = (leaf.shift, leaf.outside) if isinstance(leaf, ShiftedRead) else (0, None)
            hole = leaf.hole if isinstance(leaf, ShiftedRead) else leaf
            assert isinstance(hole, Hole)
            node, indices = cell_of(hole)
            return Read(node, self._at(indices, at + shift), outside)

        carried, added = (instantiate(tree, read) for tree in (self.recurrence.carried, self.recurrence.added))
        old = Term(Read(state, state_cell))  # type: ignore[arg-type]
        carry, finished = self.recurrence.carry(Term(carried), old), self.recurrence.finish(old)  # type: ignore[arg-type]
        value: Value = (Term(added) + carry).tree  # type: ignore[arg-type, assignment]
        code: list[Comp] = []
        for rows in divide_into_rows(outer, inner):
            body = (
                self._store(state, rows.cells, state_cell, value),
                self._store(result, rows.cells, self._at(indices, at), instantiate(finished.tree, read)),
            )
            start = self._store(state, rows.cells, state_cell, Number(0))
            code.append(rows.in_loops([start, Loop(step, Seq(body), private)], private))
        return Seq(tuple(code))

    def _store(self, node: TNode, loops: tuple[Sym, ...], indices: tuple[Affine, ...], value: Value) -> Assign:
        return Assign(node, None, False, (Piece(loops, indices, Convert(value, node.precision)),), self.origin)

    def _node(self, name: str, precision: Precision, loops: tuple[Sym, ...]) -> TNode:
        """A temporary node with one axis for each loop."""
        return temporary_of(self.recurrence.target, name, tuple([sym.extent for sym in loops]), precision)

    def _indices(self, hole: Hole) -> Indices:
        indices = self.projection.at(hole.slot)
        assert indices is not None
        return indices

    def _at(self, indices: Indices, at: Affine) -> Indices:
        return tuple([index.substitute({self.position: at}) for index in indices])

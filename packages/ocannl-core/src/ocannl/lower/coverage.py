"""Coverage of an assignment: injectivity and surjectivity of its writes; sound, and exact for typical projections."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Piece
from ocannl.ir.projections import is_injective as indices_are_injective

CONSTANT_KINDS = (SymKind.STATIC, SymKind.ITERATION)  # of symbols that are constant within an assignment


def indexed_loops(piece: Piece) -> tuple[Sym, ...]:
    """Returns the loops that occur in the left-hand side's indices, in order; the remaining loops are reductions."""
    named = {s for index in piece.indices for s in index.syms}
    return tuple(s for s in piece.loops if s in named)


def is_empty(piece: Piece) -> bool:
    return any(s.extent == 0 for s in piece.loops)


def is_injective(pieces: Sequence[Piece]) -> bool:
    """Whether no cell is written twice."""
    live = [p for p in pieces if not is_empty(p)]
    return all(indices_are_injective(direct_indices(p), p.loops) for p in live) and are_disjoint(live)


def direct_indices(piece: Piece) -> list[Affine]:
    """Returns the indices that are not indirect."""
    indirect_syms = {pick.sym for pick in piece.indirect}
    return [index for index in piece.indices if indirect_syms.isdisjoint(index.syms)]


def are_disjoint(pieces: Sequence[Piece]) -> bool:
    """Whether no two non-empty pieces write a common cell."""
    return len(pieces) < 2 or all(map(_are_separate, *zip(*combinations(pieces, 2), strict=True)))


def _are_separate(left: Piece, right: Piece) -> bool:
    return any(_never_equal(a, b) for a, b in zip(left.indices, right.indices, strict=True))


def _never_equal(a: Affine, b: Affine) -> bool:
    fixed = {s: c for c, s in a.terms if s.kind in CONSTANT_KINDS}
    if fixed != {s: c for c, s in b.terms if s.kind in CONSTANT_KINDS}:
        (a_low, a_high), (b_low, b_high) = a.range(), b.range()
    else:  # equal constant terms cancel
        (a_low, a_high), (b_low, b_high) = _without(a, fixed).range(), _without(b, fixed).range()
    return a_high < b_low or b_high < a_low


def _without(index: Affine, fixed: dict[Sym, int]) -> Affine:
    return Affine(tuple(t for t in index.terms if t[1] not in fixed), index.const) if fixed else index


def is_surjective(pieces: Sequence[Piece], dims: Sequence[int]) -> bool:
    """Whether every cell is written, for all values of the static symbols."""
    size = prod(dims)
    if size == 0:
        return True
    live = [p for p in pieces if not is_empty(p)]
    unguarded = [p for p in live if p.when.is_true and not p.indirect]
    covering = [p for p in unguarded if indices_are_injective(p.indices, indexed_loops(p))]
    if any(_cells(p) == size for p in covering):
        return True
    return are_disjoint(covering) and sum(map(_cells, covering)) == size


def _cells(piece: Piece) -> int:
    return prod(s.extent for s in indexed_loops(piece))


def overwrites(assign: Assign) -> bool:
    """Whether the assignment replaces all previous values of its left-hand side."""
    return assign.clear or (assign.accum is None and is_surjective(assign.pieces, assign.lhs.dims))

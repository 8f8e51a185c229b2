"""Which cells an assignment touches, and whether any of them twice: sound, and exact for what projections look like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

from ocannl.ir.assign import Assign, Piece
from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.projections import is_injective as determined


def mentioned(piece: Piece) -> tuple[Sym, ...]:
    """The loops that the left side's index depends on, in their order; the others are reductions."""
    named = {s for index in piece.at for s in index.syms}
    return tuple(s for s in piece.loops if s in named)


def is_empty(piece: Piece) -> bool:
    return any(s.extent == 0 for s in piece.loops)


def is_injective(pieces: Sequence[Piece]) -> bool:
    """That no cell is touched twice."""
    live = [p for p in pieces if not is_empty(p)]
    return all(determined(_known(p), p.loops) for p in live) and are_disjoint(live)


def _known(piece: Piece) -> list[Affine]:
    """The indices that follow from the loops alone."""
    picked = {pick.sym for pick in piece.picks}
    return [index for index in piece.at if picked.isdisjoint(index.syms)]


def are_disjoint(pieces: Sequence[Piece]) -> bool:
    """That no two pieces (none of them empty) touch one cell."""
    return len(pieces) < 2 or all(map(_apart, *zip(*combinations(pieces, 2), strict=True)))


def _apart(one: Piece, other: Piece) -> bool:
    return any(_never_equal(a, b) for a, b in zip(one.at, other.at, strict=True))


def _never_equal(a: Affine, b: Affine) -> bool:
    fixed = {s: c for c, s in a.terms if s.kind is SymKind.STATIC}
    if fixed != {s: c for c, s in b.terms if s.kind is SymKind.STATIC}:
        (low, high), (least, most) = a.range(), b.range()
    else:  # the same in both, whatever it is
        (low, high), (least, most) = _without(a, fixed).range(), _without(b, fixed).range()
    return high < least or most < low


def _without(index: Affine, fixed: dict[Sym, int]) -> Affine:
    return Affine(tuple(t for t in index.terms if t[1] not in fixed), index.const) if fixed else index


def is_surjective(pieces: Sequence[Piece], dims: Sequence[int]) -> bool:
    """That every cell is touched, whatever the static symbols are."""
    size = prod(dims)
    if size == 0:
        return True
    live = [p for p in pieces if not is_empty(p)]
    whole = [p for p in live if p.when.is_true and not p.picks and determined(p.at, mentioned(p))]
    if any(_cells(p) == size for p in whole):
        return True
    return are_disjoint(whole) and sum(map(_cells, whole)) == size


def _cells(piece: Piece) -> int:
    return prod(s.extent for s in mentioned(piece))


def overwrites(assign: Assign) -> bool:
    """That nothing of what the left side held before is left."""
    return assign.clear or (assign.accum is None and is_surjective(assign.pieces, assign.lhs.dims))

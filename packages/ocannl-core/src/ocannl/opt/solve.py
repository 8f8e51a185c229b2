"""At which point of its loops a write reaches a cell."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import For


def solved(
    places: Sequence[Affine], cell: Sequence[Affine], loops: Sequence[For]
) -> tuple[dict[Sym, Affine], Cond] | None:
    """Values of the loops for which `places` are `cell`, and what must hold for them to be so; None where these are not
    affine or not the only ones.

    For places (i+2, j, i) and the cell (a, b, c), i = a-2 and j = b, if a-2-c is zero and i in its range.
    """
    wanted = {loop.sym for loop in loops}
    facts = [place - index for place, index in zip(places, cell, strict=True)]
    values: dict[Sym, Affine] = {}
    for _ in loops:
        for fact in facts:
            unknown = [(coef, sym) for coef, sym in fact.terms if sym in wanted]
            if len(unknown) == 1 and abs(unknown[0][0]) == 1:
                ((coef, sym),) = unknown
                values[sym] = (Affine.of(sym) * coef - fact) * coef
                wanted.discard(sym)
                facts = [each.substitute({sym: values[sym]}) for each in facts]
                break
    if wanted:
        return None
    ranges = [bound for sym, value in values.items() for bound in (value - sym.lo, -value + sym.hi)]
    return values, Cond(tuple(ranges), tuple([fact for fact in facts if not (fact.is_const and fact.const == 0)]))

"""Solves systems of affine equations over loop symbols by substitution."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import For


def solve_affine_equations(
    indices: Sequence[Affine], cell: Sequence[Affine], loops: Sequence[For]
) -> tuple[dict[Sym, Affine], Cond] | None:
    """Solves `indices == cell` for the symbols of `loops`.

    Returns the value of each symbol and the condition under which this iteration exists, or None if a symbol has no
    unique solution with coefficient 1 or -1.

    For indices (i+2, j, i) and cell (a, b, c), the solution is i = a-2 and j = b if a-2-c is zero and i is in range.
    """
    unsolved = {loop.sym for loop in loops}
    equations = [index - target for index, target in zip(indices, cell, strict=True)]
    values: dict[Sym, Affine] = {}
    for _ in loops:
        for equation in equations:
            unknowns = [(coef, sym) for coef, sym in equation.terms if sym in unsolved]
            if len(unknowns) == 1 and abs(unknowns[0][0]) == 1:
                ((coef, sym),) = unknowns
                values[sym] = (Affine.of(sym) * coef - equation) * coef
                unsolved.discard(sym)
                equations = [remaining.substitute({sym: values[sym]}) for remaining in equations]
                break
    if unsolved:
        return None
    ranges = [bound for sym, value in values.items() for bound in (value - sym.lo, -value + sym.hi)]
    residuals = [fact for fact in equations if not (fact.is_const and fact.const == 0)]
    return values, Cond(tuple(ranges), tuple(residuals))

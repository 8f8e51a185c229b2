"""Which blocks of keys an affine condition lets a row have terms in."""

from __future__ import annotations

from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Apply, Cast, Expr, For, Const, When, loop
from ocannl.ir.ops import DIV, MUL, SUB
from ocannl.ir.walk import walk
from ocannl.opt.idioms.attention.match_softmax import EXP
from ocannl.opt.idioms.attention.match_softmax import NEG_INF as LOWEST


def reached(keys: Sym, key: Sym, size: int, cond: Cond) -> For:
    """A loop over blocks of keys that goes through those in which the condition may hold: as many rows as a block has
    keys, from a multiple of that on, go through the same blocks."""
    lows: list[tuple[Affine, int]] = [(Affine(), 1)]
    highs: list[tuple[Affine, int]] = [(Affine.of(keys.hi), 1)]
    for fact in cond.ge0:
        coef = fact.coef(key)
        end = fact * -coef + key - key.lo  # keys are at most, or at least, so many
        match end.terms:
            case ((1, row),) if coef == -1:
                highs.append((Affine.of(row) - -end.const // size * size, size))
            case ((1, row),) if coef == 1:
                lows.append((Affine.of(row) + (end.const // size * size - size + 1), size))
            case _:
                pass
    return For(keys, Bound(tuple(lows)), Bound(tuple(highs)), ())


def walked(keys: Sym, key: Sym, size: int, term: Expr) -> For:
    """The loop over the blocks of keys whose terms may be something."""
    for node in walk(term):
        if isinstance(node, When) and _is_nothing(term, node.cond, 0.0):
            return reached(keys, key, size, node.cond)
    return loop(keys, ())


def _is_nothing(value: Expr, cond: Cond, what: float) -> bool:
    """Whether the value is zero, or, of what a power is taken of, the lowest of all, wherever the condition fails."""
    match value:
        case When(test, _, Const(other)):
            return test == cond and other == what
        case Cast(inner):
            return _is_nothing(inner, cond, what)
        case Apply(op, (inner,)) if op.name == "neg" and what == 0:
            return _is_nothing(inner, cond, what)
        case Apply(op, (inner,)) if op is EXP and what == 0:
            return _is_nothing(inner, cond, LOWEST)
        case Apply(op, (left, right)) if op is MUL and what == 0:
            return _is_nothing(left, cond, what) or _is_nothing(right, cond, what)
        case Apply(op, (left, _)) if op is (DIV if what == 0 else SUB):
            return _is_nothing(left, cond, what)
    return False

"""Block-sparse masks: bounds of the key blocks that an affine mask leaves to a row (Dao et al. 2022)."""

from __future__ import annotations

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Apply, Cast, Const, Expr, For, When, loop
from ocannl.ir.ops import DIV, MUL, SUB
from ocannl.ir.walk import walk
from ocannl.opt.idioms.attention.match_softmax import EXP, NEG_INF


def unmasked_blocks(block_sym: Sym, key: Sym, key_block: int, cond: Cond) -> For:
    """A loop over the blocks of keys in which the condition may hold. Bounds are rounded outwards: aligned groups of
    `key_block` rows iterate over equal blocks."""
    lows: list[tuple[Affine, int]] = [(Affine(), 1)]
    highs: list[tuple[Affine, int]] = [(Affine.of(block_sym.hi), 1)]
    for inequality in cond.ge0:
        coef = inequality.coef(key)
        limit = inequality * -coef + key - key.lo  # upper or lower limit of the key
        match limit.terms:
            case ((1, row),) if coef == -1:
                highs.append((Affine.of(row) - -limit.const // key_block * key_block, key_block))
            case ((1, row),) if coef == 1:
                lows.append((Affine.of(row) + (limit.const // key_block * key_block - key_block + 1), key_block))
            case _:
                pass
    return For(block_sym, Bound(tuple(lows)), Bound(tuple(highs)), ())


def blocks_with_terms(block_sym: Sym, key: Sym, key_block: int, term: Expr) -> For:
    """The loop over the blocks of keys whose terms may be nonzero."""
    for node in walk(term):
        if isinstance(node, When) and _is_masked_by(term, node.cond, 0.0):
            return unmasked_blocks(block_sym, key, key_block, node.cond)
    return loop(block_sym, ())


def _is_masked_by(value: Expr, cond: Cond, masked_value: float) -> bool:
    """Whether the value equals `masked_value` (0, or -inf below an exponential) wherever the condition fails."""
    match value:
        case When(test, _, Const(fallback)):
            return test == cond and fallback == masked_value
        case Cast(inner):
            return _is_masked_by(inner, cond, masked_value)
        case Apply(op, (inner,)) if op.name == "neg" and masked_value == 0:
            return _is_masked_by(inner, cond, masked_value)
        case Apply(op, (inner,)) if op is EXP and masked_value == 0:
            return _is_masked_by(inner, cond, NEG_INF)
        case Apply(op, (left, right)) if op is MUL and masked_value == 0:
            return _is_masked_by(left, cond, masked_value) or _is_masked_by(right, cond, masked_value)
        case Apply(op, (left, _)) if op is (DIV if masked_value == 0 else SUB):
            return _is_masked_by(left, cond, masked_value)
    return False

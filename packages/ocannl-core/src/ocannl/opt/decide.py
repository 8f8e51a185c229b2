"""What can be said about conditions before a program runs."""

from __future__ import annotations

from ocannl.ir.index import TRUE, Affine, Cond


def decide(cond: Cond, given: Cond = TRUE) -> Cond | None:
    """What is left of `cond` where `given` holds: `TRUE` if it always holds too, None if it never does."""
    ge0: list[Affine] = []
    eq0: list[Affine] = []
    for fact in cond.ge0:
        truth = _at_least_zero(fact, given)
        if truth is False:
            return None
        if truth is None and fact not in ge0:
            ge0.append(fact)
    for fact in cond.eq0:
        truth = _is_zero(fact, given)
        if truth is False:
            return None
        if truth is None and fact not in eq0:
            eq0.append(fact)
    if len(ge0) == len(cond.ge0) and len(eq0) == len(cond.eq0):
        return cond
    return Cond(tuple(ge0), tuple(eq0)) if ge0 or eq0 else TRUE


def negated(cond: Cond) -> Cond:
    """What holds where `cond` does not, as far as a conjunction can say it."""
    if len(cond.ge0) == 1 and not cond.eq0:
        return Cond((-cond.ge0[0] - 1,))
    return TRUE


def _at_least_zero(fact: Affine, given: Cond) -> bool | None:
    if any(s.extent == 0 for s in fact.syms):
        return None  # never evaluated
    low, high = fact.range()
    if low >= 0:
        return True
    if high < 0:
        return False
    opposite = tuple([(-c, s) for c, s in fact.terms])
    for known in given.ge0:
        if known.terms == fact.terms and known.const <= fact.const:
            return True
        if known.terms == opposite and fact.const + known.const < 0:
            return False
    for known in given.eq0:
        if known.terms == fact.terms:
            return fact.const >= known.const
        if known.terms == opposite:
            return fact.const + known.const >= 0
    return None


def _is_zero(fact: Affine, given: Cond) -> bool | None:
    if any(s.extent == 0 for s in fact.syms):
        return None
    low, high = fact.range()
    if low == high == 0:
        return True
    if low > 0 or high < 0:
        return False
    for known in given.eq0:
        if known.terms == fact.terms:
            return fact.const == known.const
        if known.terms == tuple([(-c, s) for c, s in fact.terms]):
            return fact.const + known.const == 0
    return None

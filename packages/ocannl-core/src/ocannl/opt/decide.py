"""What can be said about conditions before a program runs."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.ir.index import TRUE, Affine, Cond

Facts = tuple[Affine, ...]


def decide(cond: Cond, given: Cond = TRUE) -> Cond | None:
    """What is left of `cond` where `given` holds: `TRUE` if it always holds too, None if it never does."""
    ge0, eq0 = _open(cond.ge0, given, _at_least_zero), _open(cond.eq0, given, _is_zero)
    if ge0 is None or eq0 is None:
        return None
    if len(ge0) == len(cond.ge0) and len(eq0) == len(cond.eq0):
        return cond
    return Cond(ge0, eq0) if ge0 or eq0 else TRUE


def negated(cond: Cond) -> Cond:
    """What holds where `cond` does not, as far as a conjunction can say it."""
    if len(cond.ge0) == 1 and not cond.eq0:
        return Cond((-cond.ge0[0] - 1,))
    return TRUE


def _open(facts: Facts, given: Cond, truth: Callable[[Affine, Cond], bool | None]) -> Facts | None:
    """Those of the facts, each once, that may or may not hold; None if one never does."""
    left: dict[Affine, None] = {}
    for fact in facts:
        holds = truth(fact, given)
        if holds is False:
            return None
        if holds is None:
            left[fact] = None
    return tuple(left)


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

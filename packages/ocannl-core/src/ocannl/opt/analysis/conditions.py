"""Simplifies conditions at compile time from the ranges of symbols and from enclosing conditions."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.ir.affine import TRUE, Affine, Cond

Facts = tuple[Affine, ...]


def simplify_condition(cond: Cond, assumptions: Cond = TRUE) -> Cond | None:
    """Returns the facts of `cond` that `assumptions` leave undecided: `TRUE` if it is implied, None if contradicted."""
    ge0, eq0 = _undecided(cond.ge0, assumptions, _is_nonnegative), _undecided(cond.eq0, assumptions, _is_zero)
    if ge0 is None or eq0 is None:
        return None
    if len(ge0) == len(cond.ge0) and len(eq0) == len(cond.eq0):
        return cond
    return Cond(ge0, eq0) if ge0 or eq0 else TRUE


def negate_condition(cond: Cond) -> Cond:
    """Returns a conjunction implied by the negation of `cond`: `TRUE` unless `cond` is a single inequality."""
    if len(cond.ge0) == 1 and not cond.eq0:
        return Cond((-cond.ge0[0] - 1,))
    return TRUE


def _undecided(facts: Facts, assumptions: Cond, truth: Callable[[Affine, Cond], bool | None]) -> Facts | None:
    """Returns the undecided facts without duplicates; None if a fact is contradicted."""
    undecided: dict[Affine, None] = {}
    for fact in facts:
        holds = truth(fact, assumptions)
        if holds is False:
            return None
        if holds is None:
            undecided[fact] = None
    return tuple(undecided)


def _is_nonnegative(fact: Affine, assumptions: Cond) -> bool | None:
    if any(s.extent == 0 for s in fact.syms):
        return None  # never evaluated
    low, high = fact.range()
    if low >= 0:
        return True
    if high < 0:
        return False
    opposite = tuple([(-c, s) for c, s in fact.terms])
    for premise in assumptions.ge0:
        if premise.terms == fact.terms and premise.const <= fact.const:
            return True
        if premise.terms == opposite and fact.const + premise.const < 0:
            return False
    for premise in assumptions.eq0:
        if premise.terms == fact.terms:
            return fact.const >= premise.const
        if premise.terms == opposite:
            return fact.const + premise.const >= 0
    return None


def _is_zero(fact: Affine, assumptions: Cond) -> bool | None:
    if any(s.extent == 0 for s in fact.syms):
        return None
    low, high = fact.range()
    if low == high == 0:
        return True
    if low > 0 or high < 0:
        return False
    for premise in assumptions.eq0:
        if premise.terms == fact.terms:
            return fact.const == premise.const
        if premise.terms == tuple([(-c, s) for c, s in fact.terms]):
            return fact.const + premise.const == 0
    return None

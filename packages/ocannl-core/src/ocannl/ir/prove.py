"""Proofs that an affine form is nonnegative for all values of the symbols in scope.

Interval arithmetic on the ranges of the symbols decides most cases, and a single condition that implies the claim most
of the remaining ones. Otherwise the negation is refuted by Fourier-Motzkin elimination, innermost symbols first, with
constants tightened to integers (Pugh 1991). The prover is sound but incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import gcd

from ocannl.ir.affine import Affine, Bound, Cond, Sym

UNBOUNDED = 2**62  # exceeds every index
MAX_INEQUALITIES = 500  # in the system at any time; the prover gives up beyond

Terms = tuple[tuple[int, Sym], ...]


class Region:
    """The set of values of the symbols in scope: a range for each symbol, and inequalities `affine >= 0`."""

    __slots__ = ("facts", "ranges")

    def __init__(self, syms: Iterable[Sym] = ()) -> None:
        self.ranges: dict[Sym, tuple[int, int]] = {s: (s.lo, s.hi) for s in syms}  # outermost first
        self.facts: list[Affine] = []

    @property
    def is_empty(self) -> bool:
        """Whether the range of a symbol is empty, so that nothing in its scope is executed."""
        return any(high < low for low, high in self.ranges.values())

    @contextmanager
    def where(self, facts: Iterable[Affine]) -> Iterator[None]:
        """Restricts the region to the values for which all `facts` are nonnegative."""
        before = len(self.facts)
        self.facts.extend(facts)
        try:
            yield
        finally:
            del self.facts[before:]

    @contextmanager
    def loop(self, sym: Sym, lo: Bound, hi: Bound, *, trusted: bool = True) -> Iterator[None]:
        """Adds a loop symbol with `lo <= sym < hi`; if `trusted`, within the declared range of the symbol too."""
        first, last = (sym.lo, sym.hi) if trusted else (-UNBOUNDED, UNBOUNDED)
        low = max(first, *[-(-a.const // d) for a, d in lo.quotients if not a.terms] or [first])
        high = min(last, *[a.const // d for a, d in hi.quotients if not a.terms] or [last])
        self.ranges[sym] = (low, high)
        before = len(self.facts)
        self.facts += bound_facts(sym, lo, hi)
        try:
            yield
        finally:
            del self.facts[before:], self.ranges[sym]

    def range(self, index: Affine) -> tuple[int, int]:
        """Bounds of the index that follow from the ranges of its symbols."""
        ranges = self.ranges
        low = high = index.const
        for coef, sym in index.terms:
            first, last = ranges[sym]
            if coef > 0:
                low += coef * first
                high += coef * last
            else:
                low += coef * last
                high += coef * first
        return low, high

    def is_inside(self, index: Affine, size: int) -> bool:
        """Whether `0 <= index < size` is proved for the whole region."""
        low, high = self.range(index)
        if low >= 0 and high < size:
            return True
        if not self.facts:
            return self.is_empty
        return (low >= 0 or self.refutes(-index - 1)) and (high < size or self.refutes(index - size))

    def is_nonnegative(self, index: Affine) -> bool:
        """Whether `index >= 0` is proved for the whole region."""
        return self.range(index)[0] >= 0 or self.refutes(-index - 1)

    def refutes(self, claim: Affine) -> bool:
        """Whether `claim >= 0` is proved to hold nowhere in the region."""
        if self.is_empty or any(self.range(claim + fact)[1] < 0 for fact in self.facts):
            return True
        return _contradict([claim, *self.facts], self.ranges)


def bound_facts(sym: Sym, lo: Bound, hi: Bound) -> list[Affine]:
    """The inequalities that the non-constant bounds of a loop imply for its symbol."""
    low = [Affine(((d, sym),)) - a for a, d in lo.quotients if a.terms]
    return low + [a - Affine(((d, sym),)) for a, d in hi.quotients if a.terms]


def cond_facts(cond: Cond) -> list[Affine]:
    facts = list(cond.ge0)
    for a in cond.eq0:
        facts += (a, -a)
    return facts


def negated_facts(cond: Cond) -> list[Affine]:
    """The negation of `cond` as a list of inequalities; empty unless `cond` is a single inequality."""
    return [-cond.ge0[0] - 1] if len(cond.ge0) == 1 and not cond.eq0 else []


def _contradict(claims: list[Affine], ranges: dict[Sym, tuple[int, int]]) -> bool:
    """Whether the inequalities `claim >= 0` are proved to have no common integer solution."""
    system: dict[Terms, int] = {}  # terms -> the smallest constant, that of the strongest of parallel inequalities
    if not all(_add(system, a.terms, a.const) for a in claims):
        return True
    for sym in reversed(ranges):
        lower = [(t, c) for t, c in system.items() if any(s is sym and k > 0 for k, s in t)]
        upper = [(t, c) for t, c in system.items() if any(s is sym and k < 0 for k, s in t)]
        if not lower and not upper:
            continue
        for terms, _ in (*lower, *upper):
            del system[terms]
        low, high = ranges[sym]
        lower.append((((1, sym),), -low))
        upper.append((((-1, sym),), high))
        for below, a in lower:
            k = next(c for c, s in below if s is sym)
            for above, b in upper:
                m = -next(c for c, s in above if s is sym)
                both = Affine.sum([*((c * m, s) for c, s in below), *((c * k, s) for c, s in above)], a * m + b * k)
                if not _add(system, both.terms, both.const):
                    return True
        if len(system) > MAX_INEQUALITIES:
            return False
    return False


def _add(system: dict[Terms, int], terms: Terms, const: int) -> bool:
    """Adds an inequality, divided by the gcd of its coefficients; returns False if it has no solution."""
    if not terms:
        return const >= 0
    divisor = gcd(*(c for c, _ in terms))
    if divisor > 1:
        terms, const = tuple((c // divisor, s) for c, s in terms), const // divisor
    system[terms] = min(const, system.get(terms, const))
    return True

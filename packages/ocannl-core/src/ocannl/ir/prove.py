"""Proofs about affine forms: that one is never negative where the symbols in scope can be.

Ranges of symbols decide the ordinary case, and one fact the next: a condition that says what is asked. Otherwise the
contrary is refuted by Fourier-Motzkin elimination, innermost symbols first, rounding constants to what integers can
reach. A proof is sound; a failure to prove is not a disproof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import gcd

from ocannl.ir.affine import Affine, Bound, Cond, Sym

FAR = 2**62  # farther than any index
LIMIT = 500  # inequalities at any time; beyond, give up

Terms = tuple[tuple[int, Sym], ...]


class Region:
    """Where the symbols in scope can be: a range for each, and facts `affine >= 0` about several."""

    __slots__ = ("facts", "ranges")

    def __init__(self, syms: Iterable[Sym] = ()) -> None:
        self.ranges: dict[Sym, tuple[int, int]] = {s: (s.lo, s.hi) for s in syms}  # outermost first
        self.facts: list[Affine] = []

    @property
    def is_empty(self) -> bool:
        """That some symbol has no value: nothing here is ever executed."""
        return any(high < low for low, high in self.ranges.values())

    @contextmanager
    def where(self, facts: Iterable[Affine]) -> Iterator[None]:
        """The part of the region in which these are not negative."""
        before = len(self.facts)
        self.facts.extend(facts)
        try:
            yield
        finally:
            del self.facts[before:]

    @contextmanager
    def loop(self, sym: Sym, lo: Bound, hi: Bound, *, trusted: bool = True) -> Iterator[None]:
        """Where `sym` runs from `lo` to below `hi`; `trusted`: and stays in the range that it promises."""
        least, most = (sym.lo, sym.hi) if trusted else (-FAR, FAR)
        low = max(least, *[-(-a.const // d) for a, d in lo.quotients if not a.terms] or [least])
        high = min(most, *[a.const // d for a, d in hi.quotients if not a.terms] or [most])
        self.ranges[sym] = (low, high)
        before = len(self.facts)
        self.facts += bound_facts(sym, lo, hi)
        try:
            yield
        finally:
            del self.facts[before:], self.ranges[sym]

    def range(self, index: Affine) -> tuple[int, int]:
        """Smallest and largest value of the index, as far as ranges tell."""
        ranges = self.ranges
        low = high = index.const
        for coef, sym in index.terms:
            least, most = ranges[sym]
            if coef > 0:
                low += coef * least
                high += coef * most
            else:
                low += coef * most
                high += coef * least
        return low, high

    def is_inside(self, index: Affine, size: int) -> bool:
        """That `0 <= index < size` everywhere in the region."""
        low, high = self.range(index)
        if low >= 0 and high < size:
            return True
        if not self.facts:
            return self.is_empty
        return (low >= 0 or self.refutes(-index - 1)) and (high < size or self.refutes(index - size))

    def is_nonnegative(self, index: Affine) -> bool:
        """That `index >= 0` everywhere in the region."""
        return self.range(index)[0] >= 0 or self.refutes(-index - 1)

    def refutes(self, claim: Affine) -> bool:
        """That `claim >= 0` nowhere in the region."""
        if self.is_empty or any(self.range(claim + fact)[1] < 0 for fact in self.facts):
            return True
        return _contradict([claim, *self.facts], self.ranges)


def bound_facts(sym: Sym, lo: Bound, hi: Bound) -> list[Affine]:
    """What a loop says about its symbol beyond a constant range."""
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
    """That not all claims (none negative) can hold at once."""
    system: dict[Terms, int] = {}  # terms -> the smallest constant: the strongest of parallel inequalities
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
        if len(system) > LIMIT:
            return False
    return False


def _add(system: dict[Terms, int], terms: Terms, const: int) -> bool:
    """Adds an inequality in lowest terms; False when it can never hold."""
    if not terms:
        return const >= 0
    divisor = gcd(*(c for c, _ in terms))
    if divisor > 1:
        terms, const = tuple((c // divisor, s) for c, s in terms), const // divisor
    system[terms] = min(const, system.get(terms, const))
    return True

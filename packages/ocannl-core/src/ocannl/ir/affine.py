"""Symbols and affine index arithmetic, shared by assignments and loop programs.

    Sym     a named integer with a known inclusive range: an identity object
    Affine  coef * sym + ... + const
    Cond    a conjunction of facts `affine >= 0` and `affine == 0`; empty means true
    Bound   the max (of lower bounds) or min (of upper bounds) of affine quotients
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class SymKind(Enum):
    LOOP = "loop"
    STATIC = "static"  # passed in each call of a routine
    INDIRECT = "picked"  # loaded from memory, see `BindIndex`
    ITERATION = "iteration"  # of an enclosing sequential loop: constant within a nest
    CONDITION = "condition"  # 1 where conditional code executes


class Sym:
    """A named integer `lo <= sym <= hi`, compared by identity.

    An empty range (`hi < lo`) is that of a loop over an axis of size zero.
    """

    __slots__ = ("hi", "kind", "lo", "name")

    def __init__(self, name: str, lo: int, hi: int, kind: SymKind = SymKind.LOOP) -> None:
        self.name = name
        self.kind = kind
        self.lo = lo
        self.hi = hi

    @property
    def extent(self) -> int:
        return max(0, self.hi - self.lo + 1)

    def __repr__(self) -> str:
        return f"{self.name}[{self.lo}..{self.hi}]"


@dataclass(frozen=True, slots=True)
class Affine:
    """`sum(coef * sym) + const`; no zero coefficient, terms sorted by the names of their symbols.

    Names are unique within a program, so two affine forms are equal exactly when they are the same function.
    """

    terms: tuple[tuple[int, Sym], ...] = ()
    const: int = 0

    @staticmethod
    def of(value: Affine | Sym | int) -> Affine:
        match value:
            case Affine():
                return value
            case Sym():
                return Affine(((1, value),))
            case _:
                return Affine((), value)

    @staticmethod
    def sum(parts: Iterable[tuple[int, Sym]], const: int = 0) -> Affine:
        coefs: dict[Sym, int] = {}
        for coef, sym in parts:
            coefs[sym] = coefs.get(sym, 0) + coef
        kept = [(coef, sym) for sym, coef in coefs.items() if coef]
        if len(kept) > 1:
            kept.sort(key=_name)
        return Affine(tuple(kept), const)

    def __add__(self, other: Affine | Sym | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.const + other) if other else self
        right = Affine.of(other)
        if not right.terms:
            return Affine(self.terms, self.const + right.const)
        return Affine.sum((*self.terms, *right.terms), self.const + right.const)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(tuple([(c * factor, s) for c, s in self.terms]), self.const * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | Sym | int) -> Affine:
        return self + -other if isinstance(other, int) else self + Affine.of(other) * -1

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple([s for _, s in self.terms])

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def only_sym(self) -> Sym | None:
        """The symbol, if the form is a single symbol."""
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == 1 and self.const == 0 else None

    def coef(self, sym: Sym) -> int:
        for c, s in self.terms:
            if s is sym:
                return c
        return 0

    def range(self) -> tuple[int, int]:
        """Smallest and largest value over the ranges of the symbols (which must not be empty)."""
        low = high = self.const
        for c, s in self.terms:
            low += c * (s.lo if c > 0 else s.hi)
            high += c * (s.hi if c > 0 else s.lo)
        return low, high

    def substitute(self, values: Mapping[Sym, Affine]) -> Affine:
        parts: list[tuple[int, Sym]] = []
        const, same = self.const, True
        for coef, sym in self.terms:
            value = values.get(sym)
            if value is None:
                parts.append((coef, sym))
            else:
                same = False
                const += coef * value.const
                parts += [(coef * c, s) for c, s in value.terms]
        return self if same else Affine.sum(parts, const)

    def evaluate(self, values: Mapping[Sym, int]) -> int:
        return self.const + sum(c * values[s] for c, s in self.terms)

    def format(self, name: Callable[[Sym], str] = lambda s: s.name) -> str:
        parts: list[str] = []
        for c, s in self.terms:
            sign = "-" if c < 0 else "+" if parts else ""
            parts.append(f"{sign}{name(s)}" if abs(c) == 1 else f"{sign}{abs(c)}*{name(s)}")
        if self.const or not parts:
            parts.append(f"+{self.const}" if parts and self.const > 0 else str(self.const))
        return "".join(parts)

    def __str__(self) -> str:
        sym = self.only_sym
        return self.format() if sym is None else sym.name


def _name(term: tuple[int, Sym]) -> str:
    return term[1].name


@dataclass(frozen=True, slots=True)
class Cond:
    """Every `ge0` is at least zero and every `eq0` is zero."""

    ge0: tuple[Affine, ...] = ()
    eq0: tuple[Affine, ...] = ()

    @property
    def is_true(self) -> bool:
        return not self.ge0 and not self.eq0

    def __and__(self, other: Cond) -> Cond:
        return Cond(
            self.ge0 + tuple(a for a in other.ge0 if a not in self.ge0),
            self.eq0 + tuple(a for a in other.eq0 if a not in self.eq0),
        )

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple(dict.fromkeys(s for a in (*self.ge0, *self.eq0) for s in a.syms))

    def substitute(self, values: Mapping[Sym, Affine]) -> Cond:
        return Cond(tuple(a.substitute(values) for a in self.ge0), tuple(a.substitute(values) for a in self.eq0))

    def format(self, name: Callable[[Sym], str] = lambda s: s.name) -> str:
        facts = [f"{a.format(name)} >= 0" for a in self.ge0] + [f"{a.format(name)} == 0" for a in self.eq0]
        return " && ".join(facts) or "true"

    def __str__(self) -> str:
        return self.format()


TRUE = Cond()


def bounds_condition(index: Affine, size: int) -> Cond:
    """The condition `0 <= index < size`, without parts that the ranges of the symbols imply."""
    only = index.only_sym
    if only is not None and only.lo >= 0 and only.hi < size:
        return TRUE  # the common case
    if any(s.extent == 0 for s in index.syms):
        return TRUE  # never evaluated
    low, high = index.range()
    facts = ([index] if low < 0 else []) + ([Affine.of(size - 1) - index] if high >= size else [])
    return Cond(tuple(facts))


@dataclass(frozen=True, slots=True)
class Bound:
    """Lower bound: the maximum of ceil(index / div). Exclusive upper bound: the minimum of floor(index / div) + 1."""

    quotients: tuple[tuple[Affine, int], ...]

    @staticmethod
    def lower(value: Affine | int) -> Bound:
        return Bound(((Affine.of(value), 1),))

    @staticmethod
    def upper(exclusive: Affine | int) -> Bound:
        return Bound(((Affine.of(exclusive) - 1, 1),))

    @property
    def constant(self) -> int | None:
        """The value of a constant bound: the lower bound itself, or the upper bound minus one."""
        index, div = self.quotients[0]
        return index.const if div == 1 and not index.terms and len(self.quotients) == 1 else None

    def substitute(self, values: Mapping[Sym, Affine]) -> Bound:
        new = tuple([(a.substitute(values), d) for a, d in self.quotients])
        return self if all(a is b for (a, _), (b, _) in zip(new, self.quotients, strict=True)) else Bound(new)

    @property
    def syms(self) -> tuple[Sym, ...]:
        return tuple(dict.fromkeys(s for a, _ in self.quotients for s in a.syms))

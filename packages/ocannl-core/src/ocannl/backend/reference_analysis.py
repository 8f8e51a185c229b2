"""Which loops of a program may run all their iterations at once, statement by statement.

A loop may be opened when no iteration depends on another one: whatever two iterations both touch, and one of them
writes, is a sum that the loop only adds to. That two accesses never meet must follow from their indices. Where a loop
may not be opened, those inside it still may: its own iterations stay in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import Access, Body, Buf, Expr, For, If, Let, Load, Local, Proc, Ref, Store, Update
from ocannl.ir.ops import Op
from ocannl.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Touch:
    """One access: `op` is that of an `Update`; `writes` is false for a load."""

    ref: Ref
    writes: bool
    op: Op | None = None


@dataclass(frozen=True, slots=True)
class Analysis:
    """`open` holds the loops that may be opened, `spans` how many values a statement inside each loop has at most for
    one of its iterations; both by `id`, of loops that `proc` keeps alive."""

    proc: Proc
    open: frozenset[int]
    spans: dict[int, int]

    def may_open(self, nest: For) -> bool:
        return id(nest) in self.open

    def span(self, nest: For) -> int:
        return self.spans[id(nest)]


def analyse(proc: Proc) -> Analysis:
    opened: set[int] = set()
    spans: dict[int, int] = {}
    strided = {s for f in walk(proc.body) if isinstance(f, For) and f.step != 1 for s in f.lo.syms}
    _visit(proc.body, (), strided, opened, spans)
    return Analysis(proc, frozenset(opened), spans)


def _visit(
    body: Body, outer: tuple[Sym, ...], strided: set[Sym], opened: set[int], spans: dict[int, int]
) -> tuple[list[Touch], int]:
    """What the statements touch, and the largest number of values that one of them may have for one outer iteration."""
    touched: list[Touch] = []
    largest = 1
    for stmt in body:
        match stmt:
            case For(sym, lo, hi, inner):
                found, span = _visit(inner, (*outer, sym), strided, opened, spans)
                spans[id(stmt)] = span
                if sym not in strided and are_independent(found, sym, outer):
                    opened.add(id(stmt))
                    low, high = lo.constant, hi.constant
                    span *= max(1, sym.extent if low is None or high is None else high - low + 1)
            case If(_, then, orelse):
                found, span = _visit((*then, *orelse), outer, strided, opened, spans)
            case Store(ref, value):
                found, span = [*_loads(value), Touch(ref, True)], 1
            case Update(ref, op, value):
                found, span = [*_loads(value), Touch(ref, True, op)], 1
            case Let(_, value):
                found, span = list(_loads(value)), 1
            case Local(buf):
                found, span = [], prod(buf.shape)
            case _:
                continue
        touched += found
        largest = max(largest, span)
    private = {s.buf for s in body if isinstance(s, Local)}
    return [t for t in touched if t.ref.buf not in private], largest


def _loads(value: Expr) -> Iterator[Touch]:
    return (Touch(e.ref, False) for e in walk(value) if isinstance(e, Load))


def storage(buf: Buf) -> object:
    """What two arrays share that are the same memory: views of a node are all of it."""
    return buf if buf.node is None or buf.access is Access.MERGE else buf.node


def are_independent(touched: Iterable[Touch], sym: Sym, outer: Sequence[Sym]) -> bool:
    """That no iteration over `sym` touches what another one writes, sums apart; the outer symbols being the same."""
    groups: dict[object, list[Touch]] = {}
    for touch in touched:
        groups.setdefault(storage(touch.ref.buf), []).append(touch)
    for group in groups.values():
        writes = [t for t in group if t.writes]
        if not writes or _only_adds(group):
            continue
        if not all(_tells(sym, outer, w.ref, other.ref) for w in writes for other in group):
            return False
    return True


def _only_adds(group: Sequence[Touch]) -> bool:
    op = group[0].op
    return op is not None and op.monoid and all(t.op is op and t.ref.buf is group[0].ref.buf for t in group)


def _tells(sym: Sym, outer: Sequence[Sym], one: Ref, other: Ref) -> bool:
    """That both are one cell only in the same iteration over `sym`."""
    if one.buf is not other.buf:
        return False
    same = [a for a, b in zip(one.at, other.at, strict=True) if a == b]
    return sym in told(same, outer)


def told(at: Iterable[Affine], known: Iterable[Sym]) -> set[Sym]:
    """The symbols whose values follow from the values of the indices and of the known symbols.

    One index tells several symbols when they are its digits: each coefficient is larger than what all smaller ones
    can add up to.
    """
    known = set(known)  # static symbols are known as well
    found: set[Sym] = set()
    indices = list(at)
    while True:
        more: set[Sym] = set()
        for index in indices:
            terms = [(abs(c), s) for c, s in index.terms if s.kind is SymKind.LOOP and s not in known | found]
            reach = 0
            for coef, s in sorted(terms, key=lambda t: t[0]):
                if coef <= reach:
                    break
                reach += coef * max(0, s.extent - 1)
            else:
                more.update(s for _, s in terms)
        if not more:
            return found
        found |= more

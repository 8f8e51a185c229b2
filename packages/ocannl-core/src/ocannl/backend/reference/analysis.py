"""Which loops of a program may run all their iterations at once, statement by statement.

A loop may be opened when no iteration depends on another one: whatever two iterations both touch, and one of them
writes, is a sum that the loop only adds to. That two accesses never meet must follow from their indices. Where a loop
may not be opened, those inside it still may: its own iterations stay in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ocannl.ir.index import Sym
from ocannl.ir.loops import Body, For, If, Let, Local, Pick, Proc, Store, Update
from ocannl.ir.touch import Touch, are_independent, loads
from ocannl.ir.walk import walk


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
                if sym not in strided and are_independent(found, sym, outer, sums=True):
                    opened.add(id(stmt))
                    low, high = lo.constant, hi.constant
                    span *= max(1, sym.extent if low is None or high is None else high - low + 1)
            case If(_, then, orelse):
                found, span = _visit((*then, *orelse), outer, strided, opened, spans)
            case Store(ref, value):
                found, span = [*loads(value), Touch(ref, True)], 1
            case Update(ref, op, value):
                found, span = [*loads(value), Touch(ref, True, op)], 1
            case Pick(_, value, inner):
                found, span = _visit(inner, outer, strided, opened, spans)
                found = [*loads(value), *found]
            case Let(_, value):
                found, span = list(loads(value)), 1
            case Local(buf):
                found, span = [], prod(buf.shape)
            case _:
                continue
        touched += found
        largest = max(largest, span)
    private = {s.buf for s in body if isinstance(s, Local)}
    return [t for t in touched if t.ref.buf not in private], largest

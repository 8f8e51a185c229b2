"""Vectorization analysis: loops whose iterations may execute all at once, statement by statement.

A loop is vectorizable if it carries no dependence other than accumulation into a reduction; independence of two
accesses must follow from their indices. Loops inside a sequential loop may still be vectorized.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ocannl.ir.accesses import Access, has_no_loop_carried_dependence, loads
from ocannl.ir.affine import Sym
from ocannl.ir.loops import BindIndex, Body, For, If, Let, Local, Proc, Store, Update
from ocannl.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Analysis:
    """`open` contains the vectorizable loops; `spans` bounds the number of values of a statement in one iteration of
    each loop. Both are keyed by `id`, of loops that `proc` keeps alive."""

    proc: Proc
    vectorizable: frozenset[int]
    spans: dict[int, int]

    def can_vectorize(self, nest: For) -> bool:
        return id(nest) in self.vectorizable

    def span(self, nest: For) -> int:
        return self.spans[id(nest)]


def analyse(proc: Proc) -> Analysis:
    vectorizable: set[int] = set()
    spans: dict[int, int] = {}
    strided = {s for f in walk(proc.body) if isinstance(f, For) and f.step != 1 for s in f.lo.syms}
    _visit(proc.body, (), strided, vectorizable, spans)
    return Analysis(proc, frozenset(vectorizable), spans)


def _visit(
    body: Body, outer: tuple[Sym, ...], strided: set[Sym], vectorizable: set[int], spans: dict[int, int]
) -> tuple[list[Access], int]:
    """Returns the accesses of the statements, and the maximal number of values of a statement per outer iteration."""
    all_accesses: list[Access] = []
    largest = 1
    for stmt in body:
        match stmt:
            case For(sym, lo, hi, inner):
                accesses, span = _visit(inner, (*outer, sym), strided, vectorizable, spans)
                spans[id(stmt)] = span
                if sym not in strided and has_no_loop_carried_dependence(accesses, sym, outer, sums=True):
                    vectorizable.add(id(stmt))
                    low, high = lo.constant, hi.constant
                    span *= max(1, sym.extent if low is None or high is None else high - low + 1)
            case If(_, if_body, else_body):
                accesses, span = _visit((*if_body, *else_body), outer, strided, vectorizable, spans)
            case Store(ref, value):
                accesses, span = [*loads(value), Access(ref, True)], 1
            case Update(ref, op, value):
                accesses, span = [*loads(value), Access(ref, True, op)], 1
            case BindIndex(_, value, inner):
                accesses, span = _visit(inner, outer, strided, vectorizable, spans)
                accesses = [*loads(value), *accesses]
            case Let(_, value):
                accesses, span = list(loads(value)), 1
            case Local(buf):
                accesses, span = [], prod(buf.shape)
            case _:
                continue
        all_accesses += accesses
        largest = max(largest, span)
    private = {s.buf for s in body if isinstance(s, Local)}
    return [t for t in all_accesses if t.ref.buf not in private], largest
